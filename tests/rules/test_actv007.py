"""ACTV007: logits that drift away."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, noise, steady
from traindx.finding import Severity, Status
from traindx.rules.actv007_output_logit_drift import output_logit_drift as rule
from traindx.run import Run


def logits(top: float, dtype: object = None, steps: int = 20) -> Run:
    values = np.linspace(5, top, 100) + noise(100, 0.5)
    return a_run(logit_maxabs=values, steps=np.arange(100) * steps, facts={"amp.autocast": dtype})


@pytest.mark.parametrize(("dtype", "severity"), [("bfloat16", Severity.WARNING), (None, Severity.INFO)])
def test_half_precision_makes_it_a_warning(dtype: object, severity: Severity) -> None:
    [found] = rule.findings(logits(150, dtype))
    assert found.severity is severity


def test_bfloat16_minds_earlier() -> None:
    assert not list(rule.findings(logits(80)))
    assert list(rule.findings(logits(80, "bfloat16")))


def test_large_but_steady_logits_are_a_scale() -> None:
    run = a_run(logit_maxabs=steady(100, 150.0), steps=np.arange(100) * 20)
    assert rule.outcome(run).status is Status.CLEAR


def test_a_short_run_does_not_drift_and_the_limit_decides() -> None:
    assert not list(rule.findings(logits(150, steps=2)))
    assert list(rule.findings(logits(150, steps=2), span=100))


def test_the_log_partition_sinks() -> None:
    [found] = rule.findings(a_run(logz_mean=np.linspace(5, -40, 100), steps=np.arange(100) * 20))
    assert found.variant == "logz"


def test_the_late_growth_of_healthy_classifiers_is_quiet() -> None:
    run = a_run(logz_mean=np.linspace(2, 13, 100), logit_maxabs=np.linspace(2, 30, 100), steps=np.arange(100) * 20)
    assert rule.outcome(run).status is Status.CLEAR


def test_logits_of_thousands_are_a_warning_in_any_precision() -> None:
    assert next(rule.findings(logits(50_000))).severity is Severity.WARNING
    assert next(rule.findings(logits(500))).severity is Severity.INFO
