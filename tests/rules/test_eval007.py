"""EVAL007: training falls, validation never moved."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Severity, Status
from traindx.rules.eval007_val_flat_from_start import val_flat_from_start as rule
from traindx.run import Run, Series

AT = np.arange(50, 1001, 50)


def _run(val: np.ndarray, train: np.ndarray | None = None) -> Run:
    slow = 2.3 - 2.0 * np.arange(1001) / 1000 + noise(1001, 0.05)
    return a_run({"loss/train": slow if train is None else train, "loss/val": Series(AT, val)})


def test_flat_validation_under_falling_training() -> None:
    [found] = rule.findings(_run(2.31 + noise(20, 0.01)))
    assert found.severity is Severity.WARNING and found.facts["count"] == 20
    assert "2.3" in found.message


def test_a_model_that_learned_before_the_first_evaluation_is_a_remark() -> None:
    found = list(rule.findings(_run(0.9 + noise(20, 0.01), learning(1001, floor=0.2))))
    assert all(f.severity is Severity.INFO for f in found)


def test_validation_that_falls_rises_or_dips_is_clear() -> None:
    for val in (np.linspace(2.3, 0.6, 20), np.linspace(2.3, 3.4, 20), 2.3 - 0.8 * np.exp(-(((np.arange(20) - 8) / 4) ** 2))):
        assert rule.outcome(_run(val + noise(20, 0.01))).status is Status.CLEAR


def test_flat_training_is_another_matter() -> None:
    assert rule.outcome(_run(2.31 + noise(20, 0.01), 2.3 + noise(1001, 0.02))).status is Status.CLEAR


def test_five_evaluations_are_too_few() -> None:
    assert rule.outcome(_run(2.31 + noise(20, 0.01)).between(hi=250)).status is Status.BLIND


def test_the_limit_is_the_users() -> None:
    gentle = np.linspace(2.31, 2.28, 20) + noise(20, 0.003)
    assert list(rule.findings(_run(gentle)))
    assert not list(rule.findings(_run(gentle), part=0.001))
