"""LOSS012: patterns locked to epochs."""

from __future__ import annotations

import numpy as np
from bench import curves as bench

import zoo
from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.loss012_epoch_boundary_pattern import epoch_boundary_pattern
from traindx.run import Run, Series


def the(run, **limits):
    return list(epoch_boundary_pattern.findings(run, **limits))


def test_stairs_are_a_remark() -> None:
    [found] = the(zoo.staircase())
    assert (found.variant, found.severity) == ("stairs", Severity.INFO) and 0.2 < found.facts["drop"] < 0.3


def test_stairs_with_stalled_validation_are_a_warning() -> None:
    val = Series(np.array([99, 199, 299, 399, 499]), np.array([1.8, 1.79, 1.85, 1.95, 2.1]))
    [found] = the(zoo.staircase().with_({"loss/val": val}))
    assert found.severity is Severity.WARNING


def test_stairs_of_the_learning_rate_are_not_memorisation() -> None:
    rate = np.repeat(0.1 * 0.5 ** np.arange(5.0), 100)
    assert [f.variant for f in the(zoo.staircase().with_({"lr": Series(np.arange(500), rate)}))] == []


def test_smooth_and_shuffled_is_clear() -> None:
    for seed in range(10):
        run = a_run(loss__train=bench.epochs_sim("shuffled", seed), facts={"data.steps_per_epoch": 40})
        assert the(run) == []


def test_the_same_order_every_epoch_is_told() -> None:
    run = a_run(loss__train=bench.epochs_sim("fixed", 0), facts={"data.steps_per_epoch": 40})
    assert "order" in [f.variant for f in the(run)]


def test_a_running_mean_is_an_artefact_and_undone() -> None:
    raw = bench.epochs_sim("shuffled", 3, per=60)
    means = np.concatenate([np.cumsum(e) / np.arange(1, 61) for e in raw.reshape(-1, 60)])
    found = the(a_run(loss__train=means, facts={"data.steps_per_epoch": 60}))
    assert [f.variant for f in found] == ["artefact"]


def test_without_epochs_it_is_blind_and_with_too_few_unsure() -> None:
    assert epoch_boundary_pattern.outcome(a_run(loss__train=zoo.falling(500))).status is Status.BLIND
    few = a_run(loss__train=zoo.falling(80), facts={"data.steps_per_epoch": 40})
    assert epoch_boundary_pattern.outcome(few).status is Status.UNSURE


def test_a_fine_tune_of_three_epochs_is_enough_for_stairs() -> None:
    per = 300
    loss = np.repeat([1.8, 1.4, 1.0], per) + noise(3 * per, 0.15)
    [found] = the(a_run(loss__train=loss, epoch=np.arange(3 * per) / per))
    assert found.facts["boundaries"] == 2


def test_its_limit_is_z() -> None:
    assert the(zoo.staircase(), stairs=-1e6) == []


def test_an_order_that_was_seen_to_change_is_not_the_same() -> None:
    facts = {"data.steps_per_epoch": 40, "data.order_repeats": False}
    assert "order" not in [f.variant for f in the(a_run(loss__train=bench.epochs_sim("fixed", 0), facts=facts))]


def _in_epochs(heads: float, keeps: bool = False, facts: dict[str, object] | None = None) -> Run:
    """15 epochs of 44 steps, each falling from `heads` (or lower and lower) by about .7, evaluated at their ends."""
    inner = 0.7 * (1 - np.exp(-np.arange(44) / 12))
    y = np.concatenate([heads * (0.9**e if keeps else 1.0) - inner for e in range(15)]) + noise(660, 0.05)
    return a_run({"loss/train": y, "loss/val": Series(np.arange(43, 660, 44), np.full(15, 1.6))}, facts=facts or {})


def test_weights_that_are_made_anew_in_every_epoch() -> None:
    watched = {"watched": ["retrained"]}
    epochs = {**watched, "data.steps_per_epoch": 44}
    for facts, severity in (
        (epochs, Severity.CRITICAL),
        (watched, Severity.WARNING),
        ({"watched": ["nonfinite"]}, Severity.INFO),
    ):
        [found] = [f for f in epoch_boundary_pattern.findings(_in_epochs(2.3, facts=facts)) if f.variant == "anew"]
        assert found.severity is severity and "every 44 steps" in found.message and "14 times" in found.message


def test_epochs_that_begin_lower_each_time_are_not() -> None:
    outcome = epoch_boundary_pattern.outcome(_in_epochs(2.3, keeps=True))
    assert not [f for f in outcome.findings if f.variant == "anew"]
