"""LOSS008: validation rises while training falls."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss008_overfitting import overfitting
from traindx.run import Series


def the(run, **limits):
    return list(overfitting.findings(run, **limits))


def epochs(train, val, **more):
    return a_run({"loss/train": train, "loss/val": val, **more}, facts={"step_unit": "epoch"})


def test_it_names_the_best_step_and_the_rise() -> None:
    [found] = the(zoo.overfits())
    assert found.severity is Severity.WARNING and 900 <= found.facts["best_step"] <= 1500
    assert found.facts["rise"] > 0.5 and str(found.facts["best_step"]) in found.fix


@pytest.mark.parametrize("kind", ["flat", "still falling", "restart"])
@pytest.mark.parametrize("sd", [0.005, 0.02, 0.05])
def test_noise_is_not_overfitting(kind: str, sd: float) -> None:
    for seed in range(10):
        train, val = bench.evaluations(np.random.default_rng(seed), kind, sd)
        assert not [f for f in the(epochs(train, val)) if f.severity > Severity.INFO]


def test_six_evaluations_suffice_when_the_rise_is_plain() -> None:
    [found] = the(zoo.overfits_in_six_evaluations())
    assert found.severity is Severity.WARNING


def test_a_small_rise_over_few_evaluations_is_a_hint_or_unsure() -> None:
    outcome = overfitting.outcome(epochs([1.0, 0.8, 0.7, 0.6, 0.5], [1.0, 0.9, 0.88, 0.91, 0.93]))
    assert outcome.status is Status.UNSURE or all(f.severity is Severity.INFO for f in outcome.findings)


def test_three_flat_evaluations_say_nothing() -> None:
    outcome = overfitting.outcome(epochs([2.0, 1.9, 1.8], [2.340, 2.342, 2.341]))
    assert outcome.status is Status.BLIND


def test_training_that_rises_too_is_no_overfitting() -> None:
    train = np.r_[np.linspace(2, 0.5, 10), np.linspace(0.5, 0.9, 10)]
    val = np.r_[np.linspace(2, 0.7, 10), np.linspace(0.7, 1.1, 10)]
    assert the(epochs(train, val)) == []


def test_a_gap_without_a_rise_is_called_a_gap() -> None:
    train = zoo.falling(40, 2.0, 0.01, 3, 1.5)
    val = 0.8 + 0.9 * np.exp(-np.arange(40) / 2) + noise(40, 0.005)
    [found] = the(epochs(train, val))
    assert (found.variant, found.severity) == ("gap", Severity.INFO) and "hardly improves any more" in found.message


def test_an_offset_from_the_first_evaluation_on_is_not_a_growing_gap() -> None:
    train = 0.5 + 0.05 * np.exp(-np.arange(30) / 3)
    assert the(epochs(train, train + 0.6)) == []


def test_a_rise_with_rising_accuracy_is_overconfidence() -> None:
    val = np.r_[np.linspace(1.0, 0.5, 10), np.linspace(0.5, 0.9, 30)] + noise(40, 0.005)
    train = zoo.falling(40, 1.0, 0.02, 3, 1.4)
    [found] = the(epochs(train, val, **{"accuracy/val": np.linspace(0.5, 0.9, 40)}))
    assert (found.variant, found.severity) == ("confident", Severity.INFO)


def test_a_bump_that_passed_is_told_as_such() -> None:
    t = np.arange(40)
    val = 0.9 + 1.4 * np.exp(-t / 4) + 0.5 * np.exp(-(((t - 16) / 4.0) ** 2)) + noise(40, 0.004)
    found = the(epochs(0.2 + 2 * np.exp(-t / 8.0), val))
    assert found and found[0].variant == "passed" and all(f.severity is Severity.INFO for f in found)


def test_hundreds_of_noisy_evaluations_are_judged_as_a_curve() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(500)
    val = (0.3 + 0.7 * np.exp(-t / 30) + 0.0006 * np.maximum(0, t - 120)) * (1 + 0.15 * rng.normal(size=500))
    train = 0.01 + np.exp(-t / 25)
    [found] = the(epochs(train, val))
    assert found.variant == "" and found.severity is Severity.WARNING


def test_losses_may_be_negative() -> None:
    run = zoo.overfits()
    lower = {n: Series(run[n].steps, run[n].values - 5) for n in ("loss/train", "loss/val")}
    [found] = the(run.with_(lower, facts={"loss.kind": "unknown"}))
    assert found.variant == ""


def test_a_relative_rise_of_almost_nothing_is_a_remark() -> None:
    val = np.array([0.47, 0.09, 0.05, 0.043, 0.046, 0.049, 0.051, 0.054])
    found = the(epochs(np.geomspace(0.5, 0.003, 8), val))
    assert all(f.severity is Severity.INFO for f in found)


def test_its_limits_are_what_is_lost() -> None:
    assert the(zoo.overfits(), much=5.0, lost=5.0)[0].severity is Severity.INFO


def test_suggestive_findings_never_warn() -> None:
    for f in the(epochs([1.0, 0.6, 0.4, 0.3], [0.9, 0.8, 0.82, 0.85])):
        assert f.confidence is not Confidence.SUGGESTIVE or f.severity is Severity.INFO


def test_accuracies_tell_it_where_no_loss_was_logged() -> None:
    at = np.arange(60)
    train = 0.99 - 0.5 * np.exp(-at / 10) + noise(60, 0.002)
    falling = 0.78 - 0.4 * np.exp(-at / 5) - np.maximum(0, at - 18) * 0.004 + noise(60, 0.006)
    [found] = overfitting.findings(a_run(accuracy__train=train, accuracy__val=falling))
    assert found.variant == "accuracy" and found.severity is Severity.WARNING and 14 <= found.facts["best_step"] <= 24
    still = 0.78 - 0.4 * np.exp(-at / 5) + noise(60, 0.006)
    assert not list(overfitting.findings(a_run(accuracy__train=train, accuracy__val=still)))
    assert overfitting.outcome(a_run(loss__train=2 - at / 60, accuracy__val=falling)).status is Status.BLIND


def test_a_validation_whose_last_evaluation_is_its_best_has_not_stopped_improving() -> None:
    at = np.arange(50, 401, 50)
    val = np.array([1.86, 0.94, 0.72, 0.66, 0.60, 0.582, 0.585, 0.537])  # augmented at test time: above training by nature
    train = np.interp(np.arange(401), [0, 100, 400], [2.3, 0.4, 0.09])
    better = a_run({"loss/train": train, "loss/val": Series(at, val)})
    assert not [f for f in the(better) if f.variant == "gap"]
    worse = a_run({"loss/train": train, "loss/val": Series(at, np.r_[val[:6], 0.585, 0.59])})
    assert [f.variant for f in the(worse)] == ["gap"]


def test_a_rise_of_half_is_not_vetoed_by_evaluations_that_jump() -> None:
    train = [106, 66, 53, 49, 47, 46, 45, 43, 42, 41, 40]
    [found] = the(epochs(train, [58, 73, 89, 113, 71, 123, 103, 114, 86, 168, 122]))
    assert found.severity is Severity.WARNING and found.facts["best_step"] == 0
    wild = np.random.default_rng(3).permutation([58, 73, 89, 113, 71, 123, 103, 114, 86, 168, 122])
    assert not [f for f in the(epochs(train, np.r_[wild[5:], 57, wild[:5]])) if f.severity > Severity.INFO]


def test_the_luckiest_of_many_evaluations_is_no_measure_of_those_after_it() -> None:
    val = [0.31, 0.15, 0.18, 0.12, 0.15, 0.147, 0.134, 0.147, 0.137, 0.27, 0.233]
    val += [0.113, 0.19, 0.13, 0.176, 0.139, 0.173, 0.127, 0.143, 0.166, 0.259, 0.232]
    assert not [f for f in the(epochs(np.linspace(0.36, 0.08, 22), val)) if f.severity > Severity.INFO]


def test_a_validation_that_was_never_better_has_not_stopped_improving() -> None:
    train, val = [0.693, 0.69, 0.683, 0.664, 0.657, 0.641, 0.622], [0.6957, 0.693, 0.6909, 0.6907, 0.6902, 0.6909, 0.6845]
    assert overfitting.outcome(epochs(train, val)).status is Status.UNSURE
