"""NUMR006: small gradients vanish in float16."""

from __future__ import annotations

import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.numr006_fp16_underflow import fp16_underflow as rule


def test_float16_without_a_scaler_is_a_fact() -> None:
    [found] = rule.findings(a_run(loss__train=[1.0], facts={"amp.autocast": "float16", "amp.scaler": False}))
    assert found.confidence is Confidence.EXACT and found.severity is Severity.WARNING


@pytest.mark.parametrize(("dtype", "scaler"), [("float16", True), ("bfloat16", False)])
def test_a_scaler_or_another_type_is_fine(dtype: object, scaler: bool) -> None:
    assert rule.outcome(a_run(facts={"amp.autocast": None, "amp.scaler": False})).status is Status.BLIND
    assert rule.outcome(a_run(facts={"amp.autocast": dtype, "amp.scaler": scaler})).status is Status.CLEAR


def test_an_unseen_scaler_is_not_an_absent_one() -> None:
    assert rule.outcome(a_run(facts={"amp.autocast": "float16"})).status is Status.BLIND


def test_the_trial_counts_zeros_by_size() -> None:
    shapes = {"a": [100], "b": [10]}
    lost = {"a": 0.5, "b": 0.0}
    [found] = rule.findings(a_run(facts={"trial.underflow": lost, "model.param_shapes": shapes}))
    assert found.where == ("a",) and "91%" in found.message
    small = {"trial.underflow": {"a": 0.0, "b": 0.5}, "model.param_shapes": shapes}
    assert not list(rule.findings(a_run(facts=small)))
    assert list(rule.findings(a_run(facts=small), worth=0.05))
