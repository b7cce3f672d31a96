"""EVAL007: training falls, validation never moved."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning, noise
from traindx import diagnose
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


def test_where_nothing_was_ever_known_is_no_place_for_an_overfitted_model() -> None:
    [found] = rule.findings(_run(2.31 + noise(20, 0.01)))
    assert found.variant == "unmoved" and "at which training began" in found.message
    [found] = rule.findings(_run(0.9 + noise(20, 0.01)))  # it knew something from the first look on
    assert found.variant == ""
    said = diagnose(_run(2.31 + noise(20, 0.01)))
    assert said.verdict == "fix-evaluation" and said.causes[0].cause.name in ("stale-evaluation", "train-val-mismatch")


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


def _with_accuracies(val_loss: np.ndarray, val: np.ndarray, train: np.ndarray) -> Run:
    at = Series(AT, val_loss)
    falling = 2.3 - 2.2 * np.arange(1001) / 1000
    return a_run({"loss/train": falling, "loss/val": at, "accuracy/val": Series(AT, val), "accuracy/train": Series(AT, train)})


def test_accuracy_that_never_left_chance_tells_it_though_the_loss_rises() -> None:
    learned = np.linspace(0.2, 0.99, 20)
    [found] = rule.findings(_with_accuracies(np.linspace(2.4, 12, 20), 0.1 + noise(20, 0.01), learned))
    assert found.variant == "never" and found.severity is Severity.WARNING and "96.9%" in found.message
    for val_loss, val in (
        (np.linspace(0.3, 0.9, 20), 0.9 + noise(20, 0.01)),  # learned at once, then memorised: LOSS008
        (np.r_[2.4, 1.6, np.linspace(1.6, 4, 18)], 0.4 + noise(20, 0.01)),  # it had a dip
        (np.linspace(2.4, 4, 20), np.linspace(0.1, 0.4, 20)),  # slowly better after all
    ):
        assert "never" not in [f.variant for f in rule.findings(_with_accuracies(val_loss, val, learned))]


def test_without_training_accuracy_its_cross_entropy_bounds_it() -> None:
    def run(val_loss: np.ndarray, val: np.ndarray, floor: float = 0.1) -> Run:
        falling = 2.3 - (2.3 - floor) * np.arange(1001) / 1000
        return a_run({"loss/train": falling, "loss/val": Series(AT, val_loss), "accuracy/val": Series(AT, val)})

    chance, rising = 0.1 + noise(20, 0.005), np.linspace(2.31, 4, 20)
    [found] = rule.findings(run(rising, chance))
    assert found.variant == "never" and found.facts["now"] > 0.8
    for val_loss, val, floor in (
        (rising, np.linspace(0.1, 0.6, 20), 0.1),  # it learned
        (rising, chance, 1.8),  # training did not learn either
        (np.linspace(0.9, 1.6, 20), chance, 0.1),  # this loss is no cross entropy of that accuracy
        (np.linspace(2.31, 4, 20) - 0.8 * (np.arange(20) == 3), chance, 0.1),  # it had a dip
        (np.linspace(0.7, 2.5, 20), 0.5 + noise(20, 0.01), 0.5),  # half is chance, and not half of what training has
    ):
        assert "never" not in [f.variant for f in rule.findings(run(val_loss, val, floor))]
