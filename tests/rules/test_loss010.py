"""LOSS010: the loss before training."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss010_initial_loss_off import initial_loss_off


def the(run, **limits):
    return list(initial_loss_off.findings(run, **limits))


def starting(first: float, n: int = 500, tau: float = 30, **facts):
    return a_run(loss__train=1.0 + (first - 1.0) * np.exp(-np.arange(n) / tau) + noise(n, 0.01), facts={**zoo.CE10, **facts})


def test_an_excess_tells_the_spread_of_the_logits() -> None:
    [found] = the(starting(math.log(10) + 2.0, tau=10))
    assert found.severity is Severity.INFO and found.facts["spread"] == pytest.approx(2.0, abs=0.15)


def test_a_large_or_lasting_excess_is_a_warning() -> None:
    assert the(zoo.wild_start())[0].severity is Severity.WARNING
    assert the(starting(math.log(10) + 2.0, tau=400))[0].severity is Severity.WARNING


def test_the_expected_start_is_clear() -> None:
    assert the(starting(math.log(10) + 0.05)) == []
    assert the(starting(math.log(2), **{"loss.kind": "bce_logits"})) == []


def test_a_low_start_is_a_hint_unless_weights_were_loaded() -> None:
    [found] = the(starting(1.2))
    assert (found.variant, found.confidence) == ("low", Confidence.SUGGESTIVE)
    for fact in ({"finetune": True}, {"model.loaded": {"missing": []}}):
        assert initial_loss_off.outcome(starting(1.2, **fact)).status is Status.MUTED


def test_a_multiple_of_the_batch_is_a_sum() -> None:
    run = starting(64 * math.log(10))
    sized = run.with_(a_run(batch__size=np.full(500, 64.0)).signals)
    [found] = the(sized)
    assert found.variant == "summed" and "64 samples" in found.message


def test_a_regression_is_compared_with_its_targets() -> None:
    n = 300
    signals = {"loss/train": 500 * np.exp(-np.arange(n) / 20), "batch/label_std": np.ones(n), "batch/label_mean": np.zeros(n)}
    [found] = the(a_run(signals, facts={"loss.kind": "mse"}))
    assert found.variant == "large" and found.facts["ratio"] == pytest.approx(500, rel=0.1)
    fine = {**signals, "loss/train": 1.2 * np.exp(-np.arange(n) / 50)}
    assert the(a_run(fine, facts={"loss.kind": "mse"})) == []


def test_a_log_that_starts_later_or_in_averages_is_blind() -> None:
    late = a_run(loss__train=np.ones(50), steps=np.arange(50) * 100 + 100, facts=zoo.CE10)
    assert initial_loss_off.outcome(late).status is Status.BLIND
    assert initial_loss_off.outcome(a_run(loss__train=np.ones(50))).status is Status.BLIND


def test_weighted_losses_have_no_known_start() -> None:
    assert initial_loss_off.outcome(starting(9.0, **{"loss.weighted": True})).status is Status.MUTED


def test_its_limits_are_nats() -> None:
    assert the(zoo.wild_start(), remark=50.0) == []


def _regressed(loss: np.ndarray, mean: float, deviation: float, kind: str = "mse") -> list:
    targets = {"batch/label_std": np.full(30, deviation), "batch/label_mean": np.full(30, mean)}
    facts = {"loss.kind": kind, "loss.reduction": "mean"}
    return [f.variant for f in initial_loss_off.findings(a_run({"loss/train": loss, **targets}, facts=facts))]


def test_targets_far_from_unit_size_that_are_not_reached_are_a_warning() -> None:
    crawls = np.linspace(300.0**2 + 60**2, 290.0**2 + 60**2, 500)
    assert _regressed(crawls, 300, 60) == ["targets"]
    assert _regressed(np.sqrt(crawls), 300, 60, "l1") == ["targets"]
    assert _regressed(np.full(500, 60.0**2), 0, 60) == ["targets"]
    assert _regressed(crawls[:100], 300, 60) == []  # too early to tell
    assert _regressed(np.geomspace(300.0**2, 20.0**2, 500), 300, 60) == []  # reached all the same
    assert _regressed(np.linspace(1.3, 1.25, 500), 0.3, 1.0) == []  # of unit size: other rules speak


def test_targets_that_are_neared_late_are_a_warning_until_the_run_has_come_through() -> None:
    late = np.r_[np.linspace(400.0, 350.0, 600), np.linspace(350.0, 240.0, 600)] ** 2
    assert _regressed(late, 250, 320) == ["targets"]
    assert _regressed(np.sqrt(late), 250, 320, "l1") == ["targets"]
    assert not _regressed(np.r_[late[:1200], np.full(1300, 60.0**2)], 250, 320), "it came through"
    assert not _regressed(np.r_[np.geomspace(400.0, 300.0, 200), np.geomspace(300.0, 200.0, 1000)] ** 2, 250, 320)
    assert not _regressed(late / 1e4, 2.5, 3.2), "targets of size one"


def test_targets_far_below_one_that_are_never_reached() -> None:
    def run(now: float, size: float = 1e-8):
        loss = now + 0.04 * np.exp(-np.arange(800) / 20) + noise(800, 0.01 * now)
        labels = {"batch/label_std": np.full(800, size), "batch/label_mean": np.full(800, size)}
        return a_run({"loss/train": loss} | labels, facts={"loss.kind": "mse", "loss.reduction": "mean"})

    [found] = the(run(1e-6))
    assert (found.variant, found.severity) == ("tiny", Severity.WARNING)
    assert "tiny" not in {f.variant for f in the(run(1e-17)) + the(run(0.5, size=1.0))}


@pytest.mark.parametrize(("largest", "status"), [(0.4, Status.MUTED), (8.0, Status.FOUND)])
def test_a_penalty_is_no_spread_of_logits(largest: float, status: Status) -> None:
    run = starting(math.log(10) + 9.0).with_(a_run(logit_maxabs=np.full(500, largest)).signals)
    assert initial_loss_off.outcome(run).status is status


def test_the_losses_of_several_calls_are_judged_as_one() -> None:
    """One loss for each letter of a word, added up."""
    each = 2.0 + 10.0 * np.exp(-np.arange(500) / 30)
    told = {"loss/token_mean": each, "loss/train": 6 * each}
    [found] = the(a_run(told, facts=zoo.CE10))
    assert found.variant == "high" and found.facts["initial"] == pytest.approx(12.0)
