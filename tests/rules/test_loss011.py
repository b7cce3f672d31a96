"""LOSS011: levels with a meaning, and impossible ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss011_pinned_level import pinned_level


def the(run, **limits):
    return list(pinned_level.findings(run, **limits))


def resting(level: float, n: int = 1200, sd: float = 0.01, drop: float = 0.5, **facts):
    return a_run(loss__train=level + drop * np.exp(-np.arange(n) / 40) + noise(n, sd), facts=facts)


def test_softmax_twice_is_named() -> None:
    [found] = the(zoo.softmax_twice())
    assert found.facts["name"] == "softmax-twice" and found.severity is Severity.WARNING


def test_the_entropy_of_the_prior_is_named() -> None:
    counts = [900, 50, 50]
    entropy = -sum(c / 1000 * math.log(c / 1000) for c in counts)
    [found] = the(resting(entropy, **{"loss.kind": "ce", "loss.classes": 3, "data.class_counts": counts}))
    assert found.facts["name"] == "prior"


def test_a_perfect_fit_of_smoothed_labels_is_harmless() -> None:
    [found] = the(resting(0.5003, sd=0.002, **{**zoo.CE10, "loss.smoothing": 0.1}))
    assert (found.variant, found.severity) == ("perfect", Severity.INFO)


def test_the_variance_of_the_target_means_the_mean_is_predicted() -> None:
    run = resting(4.0, **{"loss.kind": "mse"})
    n = 1200
    run = run.with_(a_run(batch__label_std=np.full(n, 2.0) + noise(n, 0.05), batch__label_mean=noise(n, 0.01)).signals)
    [found] = the(run)
    assert found.facts["name"] == "target-variance"


def test_another_level_is_not_pinned() -> None:
    assert the(resting(1.9, **zoo.CE10)) == [] and the(zoo.plain()) == []


def test_an_unknown_loss_gets_ln_of_a_small_integer_as_a_hint() -> None:
    [found] = the(resting(math.log(4), sd=0.02))
    assert (found.variant, found.confidence) == ("integer", Confidence.SUGGESTIVE)
    [found] = the(resting(math.log(3), sd=0.005, drop=0.0))
    assert (found.facts["classes"], found.confidence) == (3, Confidence.STRONG)


def test_a_large_integer_is_no_reference() -> None:
    assert the(resting(math.log(57), sd=0.003)) == []


def test_exact_zeros_from_the_start_or_at_once_are_told() -> None:
    [found] = the(a_run(loss__train=np.zeros(200)))
    assert (found.variant, found.steps) == ("zero", (0, 199))
    sudden = zoo.falling(400) + noise(400, 0.02)
    sudden[300:] = 0.0
    assert the(a_run(loss__train=sudden))[0].steps == (300, 399)


def test_a_hinge_loss_that_reached_zero_step_by_step_is_fine() -> None:
    loss = np.maximum(0, 1 - np.arange(300) / 150) * np.exp(noise(300, 0.02))
    assert the(a_run(loss__train=loss)) == []


def test_impossible_values_of_a_cross_entropy_are_facts() -> None:
    negative = zoo.falling(300, 2.3, -0.5)
    assert the(a_run(loss__train=negative, facts=zoo.CE10))[0].variant == "negative"
    assert the(a_run(loss__train=negative, facts={"loss.kind": "unknown"})) == []
    below = a_run(loss__train=zoo.falling(300, 2.3, 0.05), facts={**zoo.CE10, "loss.smoothing": 0.1})
    assert the(below)[0].variant == "below"


def test_a_level_must_hold_for_a_while() -> None:
    short = a_run(loss__train=math.log(10) + noise(60, 0.01), facts=zoo.CE10)
    assert pinned_level.outcome(short).status is Status.UNSURE
    by_epoch = short.with_(facts={"step_unit": "epoch"})
    assert the(by_epoch)


def test_two_players_sit_at_ln_two_by_right() -> None:
    run = resting(math.log(2), **{"loss.kind": "bce_logits", "adversarial": True})
    assert pinned_level.outcome(run).status is Status.MUTED


@pytest.mark.parametrize("steps", [10, 10_000])
def test_its_limit_is_how_long(steps: int) -> None:
    status = pinned_level.outcome(zoo.stuck_at_chance(), steps=steps).status
    assert status is (Status.FOUND if steps == 10 else Status.UNSURE)


def curves(loss: np.ndarray, accuracy: np.ndarray, **facts):
    return a_run({"loss/train": loss, "accuracy/train": accuracy}, facts=facts)


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_in_a_log_softmax_twice_is_told_by_the_sum_of_loss_and_accuracy(classes: int) -> None:
    accuracy = 1 / classes + (0.97 - 1 / classes) * (1 - np.exp(-np.arange(40) / 8)) + noise(40, 0.004)
    [found] = the(curves(math.log(math.e + classes - 1) - accuracy + noise(40, 0.004, 1), accuracy))
    assert found.severity is Severity.WARNING and found.facts["classes"] == classes and "softmax" in found.message


def test_plain_and_smoothed_cross_entropies_do_not_add_up_with_their_accuracy() -> None:
    at = np.arange(60)
    accuracy = 0.1 + 0.87 * (1 - np.exp(-at / 8)) + noise(60, 0.004)
    plain = 2.3 * np.exp(-at / 10) + 0.08
    smoothed = 1.75 * np.exp(-at / 9) + 0.56
    for loss in (plain, smoothed, smoothed[8:], plain + 0.7):
        assert not pinned_level.outcome(curves(loss, accuracy[-len(loss) :])).findings


def test_two_classes_alone_tell_nothing() -> None:
    accuracy = 0.5 + 0.45 * (1 - np.exp(-np.arange(40) / 8))
    assert not pinned_level.outcome(curves(1.3133 - accuracy, accuracy)).findings
