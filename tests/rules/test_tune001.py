"""TUNE001: the old ability is lost."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.tune001_forgetting import forgetting as rule
from traindx.run import Matrix, Run, Series


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


OLD, NEW = [0.05, 0.3, 0.5, 0.7], [2.4, 0.9, 0.4, 0.2]


def _evaluated(columns: dict[str, list[float]], tuned: bool = True) -> Run:
    rows = Matrix(np.array([0, 20, 40, 60]), tuple(columns), np.array(list(columns.values())).T)
    return a_run({"loss/train": np.linspace(2, 0.2, 80), "eval/loss/batch": rows}, facts={"finetune": tuned})


def test_what_is_evaluated_beside_the_new_task_tells_too() -> None:
    [found] = rule.findings(_evaluated({"1": OLD, "2": OLD, "3": NEW}))
    assert found.variant == "beside" and "0.05 to 0.7" in found.message and "2.4 to 0.2" in found.message
    two = {
        "loss/val": Series(np.array([0, 20, 40, 60]), np.array(NEW)),
        "metric/other/loss": Series(np.array([0, 20, 40, 60]), np.array(OLD)),
    }
    [found] = rule.findings(a_run({"loss/train": np.linspace(2, 0.2, 80), **two}, facts={"finetune": True}))
    assert found.variant == "beside" and "0.05 to 0.7" in found.message


def test_batches_of_one_set_and_overfitting_are_no_forgetting() -> None:
    bend = [2.0, 0.9, 1.5, 3.2]  # it fell first
    for columns in (
        {"1": OLD, "2": OLD},
        {"1": NEW, "2": NEW},
        {"1": bend, "2": NEW},
        {"1": OLD, "2": NEW, "3": OLD, "4": NEW},
    ):
        assert rule.outcome(_evaluated(columns)).status is not Status.FOUND
    assert rule.outcome(_evaluated({"1": OLD, "2": NEW}, tuned=False)).status is not Status.FOUND
    little = [0.004, 0.05, 0.03, 0.04]  # ten times next to nothing
    assert rule.outcome(_evaluated({"1": little, "2": NEW})).status is not Status.FOUND
