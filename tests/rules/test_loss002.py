"""LOSS002: flat from the start."""

from __future__ import annotations

import math

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss002_flat_from_start import flat_from_start
from traindx.run import Series


def the(run, **limits):
    return list(flat_from_start.findings(run, **limits))


def test_chance_level_is_named_and_a_warning() -> None:
    [found] = the(zoo.stuck_at_chance())
    assert (found.variant, found.severity) == ("chance", Severity.WARNING)
    assert "2.3" in found.message and found.steps == (0, 599)


def test_without_a_reference_it_is_only_a_hint() -> None:
    [found] = the(a_run(loss__train=7.6 + noise(220, 0.1), steps=np.arange(220) * 50))
    assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_ln_of_a_small_integer_is_a_reference_when_it_fits_too_well_for_chance() -> None:
    [found] = the(a_run(loss__train=math.log(4) + noise(400, 0.01)))
    assert (found.variant, found.confidence) == ("chance", Confidence.STRONG)


def regression(level: float):
    """A squared error that stands still while the targets of the batches that were read have a variance of about 1."""
    labels = {"batch/label_std": 1 + noise(30, 0.05), "batch/label_mean": noise(30, 0.1)}
    parts = {name: Series(np.arange(30) * 10, values) for name, values in labels.items()}
    told = {"loss.kind": "mse", "loss.reduction": "mean"}
    return a_run({"loss/train": level + noise(600, 0.15)} | parts, facts=told)


def test_the_variance_of_the_target_is_a_reference() -> None:
    [found] = the(regression(1.0))
    assert (found.variant, found.severity) == ("chance", Severity.WARNING)
    assert all(f.severity is Severity.INFO for f in the(regression(0.4)) + the(regression(30.0)))


def test_a_log_that_repeats_itself_is_frozen() -> None:
    [found] = the(zoo.frozen_log())
    assert found.variant == "frozen"


def test_a_constant_accuracy_settles_it() -> None:
    epochs = {"loss/train": 0.83 + noise(10, 0.003), "accuracy/val": np.full(10, 0.3714)}
    [found] = the(a_run(epochs, facts={"step_unit": "epoch"}))
    assert (found.variant, found.severity) == ("stuck", Severity.WARNING)


def test_a_rising_accuracy_says_otherwise() -> None:
    epochs = {"loss/train": 0.83 + noise(30, 0.01), "accuracy/val": np.linspace(0.3, 0.8, 30)}
    assert the(a_run(epochs, facts={"step_unit": "epoch"})) == []


def test_slow_but_real_learning_under_heavy_noise_is_not_flat() -> None:
    n = 4000
    loss = 2.3 - 0.6 * np.arange(n) / n + noise(n, 0.8)
    assert the(a_run(loss__train=loss, facts=zoo.CE10)) == []


def test_a_level_far_below_chance_was_learned_before_the_log_began() -> None:
    assert the(a_run(loss__train=0.4 + noise(500, 0.02), facts={**zoo.CE10, "loss.classes": 1000})) == []
    assert the(zoo.fine_tuning_at_the_floor()) == []


def test_what_was_learned_in_the_first_steps_shows_in_a_thousand_noisy_records() -> None:
    above, below = (
        a_run(loss__train=level + noise(1200, 0.07), facts={**zoo.CE10, "loss.classes": 2}) for level in (0.69, 0.62)
    )
    assert the(above) and not the(below)


def test_too_few_steps_and_warm_up_are_unsure_with_what_is_missing() -> None:
    outcome = flat_from_start.outcome(a_run(loss__train=2.3 + noise(80, 0.02), facts=zoo.CE10))
    assert outcome.status is Status.UNSURE and 100 <= outcome.needs_steps <= 121
    assert flat_from_start.outcome(zoo.still_in_warm_up()).status is not Status.FOUND


def test_steps_before_a_tenth_of_the_peak_rate_do_not_count() -> None:
    rate = np.r_[np.full(500, 1e-6), np.full(100, 1e-3)]
    run = a_run(loss__train=math.log(10) + noise(600, 0.02), lr=rate, facts=zoo.CE10)
    assert flat_from_start.outcome(run).status is Status.UNSURE


def test_noise_that_could_hide_learning_is_unsure_and_states_the_resolution() -> None:
    outcome = flat_from_start.outcome(a_run(loss__train=2.3 + noise(250, 1.5, ar=0.5), facts=zoo.CE10))
    assert outcome.status is Status.UNSURE and outcome.resolution > 0.03


def test_a_run_that_dropped_and_came_back_was_not_flat() -> None:
    n = 1000
    loss = 2.3 - 1.5 * np.exp(-(((np.arange(n) - 500) / 150.0) ** 2)) + noise(n, 0.03)
    assert the(a_run(loss__train=loss, facts=zoo.CE10)) == []


def test_only_a_validation_loss_will_do() -> None:
    run = a_run({"loss/val": Series(np.arange(30) * 50, math.log(10) + noise(30, 0.005))}, facts=zoo.CE10)
    assert the(run)[0].facts["what"] == "validation loss"


def test_its_limits_move_the_verdict() -> None:
    assert flat_from_start.outcome(zoo.stuck_at_chance(), steps=5000).status is Status.UNSURE
    assert the(zoo.stuck_at_chance(), near_chance=2.0) == []
