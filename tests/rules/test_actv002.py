"""ACTV002: units fall asleep."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.actv002_dormant_units import dormant_units as rule
from traindx.run import Run


def layer(values: np.ndarray, **facts: object) -> Run:
    return a_run({"dormant_fraction/module": {"h": values}}, facts=facts)


RISING = np.linspace(0.05, 0.6, 60) + noise(60, 0.01)


def test_in_reinforcement_learning_it_is_a_warning() -> None:
    [found] = rule.findings(layer(RISING, rl=True))
    assert found.where == ("h",) and found.severity is Severity.WARNING


def test_elsewhere_it_is_worth_knowing() -> None:
    assert next(rule.findings(layer(RISING))).severity is Severity.INFO


def test_many_weak_units_that_no_longer_rise_are_sparsity() -> None:
    values = np.minimum(np.linspace(0.1, 2.0, 60), 0.5) + noise(60, 0.01)
    assert rule.outcome(layer(values)).status is Status.CLEAR


def test_the_limit() -> None:
    low = np.linspace(0.02, 0.25, 60)
    assert not list(rule.findings(layer(low)))
    assert list(rule.findings(layer(low), most=0.2))
