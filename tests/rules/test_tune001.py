"""TUNE001: the old ability is lost."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.tune001_forgetting import forgetting as rule
from traindx.run import Run, Series


def test_says_how_much_was_lost() -> None:
    [found] = rule.findings(a_run(probe__loss=[1.0, 1.3, 1.4], probe__loss_se=[0.02] * 3))
    assert found.severity is Severity.WARNING and "+40%" in found.message


def test_one_bad_measurement_or_a_small_rise_is_clear() -> None:
    assert rule.outcome(a_run(probe__loss=[1.0, 1.5, 1.02], probe__loss_se=[0.02] * 3)).status is Status.CLEAR
    assert rule.outcome(a_run(probe__loss=[1.0, 1.05, 1.06], probe__loss_se=[0.001] * 3)).status is Status.CLEAR
    assert rule.outcome(a_run(probe__loss=[1.0, 1.3, 1.4], probe__loss_se=[0.2] * 3)).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    assert list(rule.findings(a_run(probe__loss=[1.0, 1.05, 1.06], probe__loss_se=[0.001] * 3), relative=0.01))


def test_two_measurements_leave_it_blind() -> None:
    assert rule.outcome(a_run(probe__loss=[1.0, 2.0])).status is Status.BLIND


def test_classes_that_training_no_longer_shows_are_forgotten() -> None:
    fed = {"0": [16.0] * 20 + [0.0] * 20, "1": [16.0] * 20 + [0.0] * 20, "2": [0.0] * 20 + [32.0] * 20}

    def moved(late: float, **asked: float) -> Run:
        val = Series(np.arange(0, 40, 4), np.r_[np.full(5, 0.1), np.full(5, late)])
        run = a_run({"batch/labels/class": fed}, facts={"data.val_class_counts": asked})
        return run.with_({"loss/val": val})

    old = {"0": 50.0, "1": 50.0}
    [found] = rule.findings(moved(4.0, **old))
    assert found.variant == "classes" and found.steps == (0, 36)
    assert rule.outcome(moved(0.12, **old)).status is Status.CLEAR
    assert rule.outcome(moved(4.0, **{**old, "2": 50.0})).status is Status.BLIND
