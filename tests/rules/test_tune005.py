"""TUNE005: adapters that do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning
from traindx.finding import Confidence, Severity, Status
from traindx.rules.tune005_adapter_inert import adapter_inert as rule
from traindx.run import Run

NAMES = ["q.lora_A", "q.lora_B", "v.lora_A", "v.lora_B"]


def _run(steps: int = 50, signals: dict[str, Any] | None = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run({"loss/train": learning(steps), **(signals or {})}, facts={"model.adapters": NAMES, **named})


def test_matrices_that_stay_zero_are_named() -> None:
    [found] = rule.findings(_run(model__adapter_b_zero=["q.lora_B", "v.lora_B"]))
    assert found.variant == "zero" and found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.where == ("q.lora_B", "v.lora_B") and "2 of 2" in found.message


def test_one_of_many_is_a_warning() -> None:
    [found] = rule.findings(_run(model__adapter_b_zero=["q.lora_B"]))
    assert found.severity is Severity.WARNING


def test_the_first_steps_are_unsure() -> None:
    outcome = rule.outcome(_run(steps=5, model__adapter_b_zero=["q.lora_B", "v.lora_B"]))
    assert outcome.status is Status.UNSURE and outcome.needs_steps == 15


def test_adapters_outside_the_optimizer() -> None:
    [found] = rule.findings(_run(steps=3, model__unowned=["q.lora_A", "head.weight"]))
    assert found.variant == "unowned" and found.where == ("q.lora_A",)


def test_adapters_without_a_gradient() -> None:
    absent = {"grad_none/param": {**{n: np.ones(30) for n in NAMES}, "head": np.zeros(30)}}
    [found] = rule.findings(_run(signals=absent))
    assert found.variant == "none" and len(found.where) == 4 and "enable_input_require_grads" in found.fix


def test_adapters_that_learn_are_clear() -> None:
    assert rule.outcome(_run(model__adapter_b_zero=[], model__unowned=[])).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    assert list(rule.findings(_run(steps=10, model__adapter_b_zero=["q.lora_B"]), least_steps=5))
