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
