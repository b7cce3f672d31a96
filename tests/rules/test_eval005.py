"""EVAL005: too sure, not worse."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.eval005_miscalibrated import miscalibrated as rule
from traindx.run import Run, Series

AT = np.arange(50, 1001, 50)


def _run(accuracy: Any, rise: float = 0.4, **signals: Any) -> Run:
    val = np.r_[np.linspace(1.0, 0.5, 6), np.linspace(0.5, 0.5 + rise, 14)] + noise(20, 0.004)
    table = {name.replace("__", "/"): value for name, value in signals.items()}
    train = np.exp(-np.arange(1001) / 200) + noise(1001, 0.01)
    return a_run({"loss/val": Series(AT, val), "loss/train": train, "accuracy/val": Series(AT, accuracy), **table})


GOOD = np.r_[np.linspace(0.6, 0.85, 6), np.full(14, 0.86)]
WORSE = np.r_[np.linspace(0.6, 0.85, 6), np.linspace(0.85, 0.75, 14)]


def test_without_predictions_it_is_a_hypothesis() -> None:
    [found] = rule.findings(_run(GOOD))
    assert found.variant == "guess" and found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_a_temperature_that_wins_the_rise_back_settles_it() -> None:
    tempered = {"eval__nll_tempered": Series(AT, np.full(20, 0.52)), "eval__temperature": Series(AT, np.full(20, 2.1))}
    [found] = rule.findings(_run(GOOD, **tempered))
    assert found.variant == "" and found.confidence is Confidence.STRONG and "2.10" in found.message


def test_a_temperature_that_does_not_help_is_real_overfitting() -> None:
    tempered = {"eval__nll_tempered": Series(AT, np.full(20, 0.85)), "eval__temperature": Series(AT, np.full(20, 1.4))}
    assert rule.outcome(_run(GOOD, **tempered)).status is Status.CLEAR


def test_accuracy_that_falls_is_overfitting() -> None:
    assert rule.outcome(_run(WORSE)).status is Status.CLEAR


def test_without_a_rise_it_is_clear() -> None:
    assert rule.outcome(_run(GOOD, rise=0.0)).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    tempered = {"eval__nll_tempered": Series(AT, np.full(20, 0.52)), "eval__temperature": Series(AT, np.full(20, 1.2))}
    assert not list(rule.findings(_run(GOOD, **tempered)))
    assert list(rule.findings(_run(GOOD, **tempered), temperature=1.1))
