"""NUMR009: calls around autocast and scaler."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.numr009_amp_misuse import amp_misuse as rule
from traindx.run import Event, Run


def loop(kind: str, **facts: object) -> Run:
    return a_run(loss__train=[1.0] * 9, facts={"amp.scaler": True, **facts}, events=[Event(3, kind, {"count": 6})])


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("clip_before_unscale", Severity.WARNING),
        ("scaler_bypassed", Severity.CRITICAL),
        ("scaler_no_update", Severity.WARNING),
        ("backward_in_autocast", Severity.INFO),
        ("scaler_with_bf16", Severity.INFO),
    ],
)
def test_each_fact_has_its_weight(kind: str, severity: Severity) -> None:
    [found] = rule.findings(loop(kind))
    assert found.severity is severity and found.steps == (3, 3)


def test_adam_divides_the_scale_out_again() -> None:
    [found] = rule.findings(loop("scaler_bypassed", **{"optimizer.name": "AdamW"}))
    assert found.severity is Severity.WARNING


def test_a_float16_model_inside_autocast() -> None:
    facts = {"amp.autocast": "float16", "amp.half_model": True}
    assert [f.variant for f in rule.findings(a_run(loss__train=[1.0], facts=facts))] == ["half-model"]


@pytest.mark.parametrize(("dtype", "severity"), [("float16", Severity.WARNING), ("bfloat16", Severity.INFO)])
def test_norms_in_half_precision_are_named(dtype: str, severity: Severity) -> None:
    [found] = rule.findings(a_run(facts={"amp.autocast": dtype, "amp.half_modules": ["norm1"]}))
    assert found.where == ("norm1",) and found.severity is severity


def test_the_scheduler_runs_ahead_of_skipped_updates() -> None:
    skipped = (np.arange(200) % 10 == 0).astype(float)
    run = a_run({"amp/skipped": skipped, "loop/scheduler_steps": np.ones(200)}, facts={"amp.scaler": True})
    [found] = rule.findings(run)
    assert found.variant == "scheduler" and "10%" in found.message
    assert not list(rule.findings(run, share=0.2))


def test_a_correct_loop_is_clear() -> None:
    assert (
        rule.outcome(a_run(loss__train=[1.0], facts={"amp.autocast": "bfloat16", "amp.scaler": False})).status is Status.CLEAR
    )
