"""LOSS005: oscillation beyond sampling noise."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss005_oscillation import oscillation


def the(run, **limits):
    return list(oscillation.findings(run, **limits))


def sampled(n: int = 2400, batch: int = 32, shake: float = 0.0, seed: int = 0):
    """Losses made of per-sample losses, so that the sampling noise is exactly known; `shake` swings the weights."""
    rng = np.random.default_rng(seed)
    mean = 0.8 + 1.5 * np.exp(-np.arange(n) / 100)
    each = rng.gamma(0.7, 1.0, size=(n, batch)) * mean[:, None] / 0.7
    loss = each.mean(1) + shake * np.sin(2.1 * np.arange(n))
    signals = {"loss/train": loss, "loss/sample_var": each.var(1, ddof=1), "batch/size": np.full(n, float(batch))}
    return a_run(signals, facts=zoo.CE10)


def test_shaking_weights_are_told_with_the_ratio() -> None:
    [found] = the(sampled(shake=0.6))
    assert found.severity is Severity.INFO and found.facts["ratio"] > 3 and found.steps[1] == 2399


def test_a_second_witness_makes_it_a_warning() -> None:
    turning = a_run(grad_cosine=0.8 * (-1.0) ** np.arange(2400))
    [found] = the(sampled(shake=0.6).with_(turning.signals))
    assert found.severity is Severity.WARNING


def test_a_spread_seen_only_now_and_then_is_enough() -> None:
    run = sampled(shake=0.6)
    spread = run["loss/sample_var"]
    assert the(run.with_({"loss/sample_var": spread.where(np.arange(len(spread)) % 30 == 0)}))


def test_a_sum_or_several_terms_cannot_be_judged_by_the_samples_of_one_call() -> None:
    assert oscillation.outcome(sampled(shake=0.6).with_(facts={"loss.reduction": "sum"})).status is not Status.FOUND


def test_wild_sampling_noise_of_a_tiny_batch_is_clear() -> None:
    run = sampled(batch=4)
    spread = run["loss/train"].values[-400:]
    assert np.std(spread) / np.mean(spread) > 0.4, "this curve looks wild"
    assert oscillation.outcome(run).status is Status.CLEAR


def test_a_little_more_than_sampling_is_a_remark() -> None:
    [found] = the(sampled(shake=0.3))
    assert found.severity is Severity.INFO or found.facts["ratio"] < 4


def test_shaking_that_is_over_is_not_told() -> None:
    run = sampled(n=3000)
    loss = run["loss/train"].values.copy()
    loss[400:1200] += 0.8 * np.sin(2.1 * np.arange(800))
    assert the(run.with_({"loss/train": type(run["loss/train"])(np.arange(3000), loss)})) == []


def test_without_the_spread_of_samples_it_is_blind_not_clear() -> None:
    outcome = oscillation.outcome(a_run(loss__train=zoo.falling(1000) + noise(1000, 0.1)))
    assert outcome.status is Status.BLIND and outcome.lacks == ("loss/sample_var",)


def test_a_band_that_widens_at_the_same_rate_is_a_hint() -> None:
    n = 3000
    loss = 0.8 + 1.5 * np.exp(-np.arange(n) / 60) + noise(n, 0.03) * np.where(np.arange(n) > 2000, 4, 1)
    [found] = the(a_run(loss__train=loss, lr=np.full(n, 0.01)))
    assert found.variant == "wider" and found.confidence is Confidence.SUGGESTIVE


def test_neighbours_that_alternate_are_a_hint_sampling_noise_is_not() -> None:
    n = 200
    [found] = the(a_run(loss__train=1.0 + 0.3 * (-1.0) ** np.arange(n) + noise(n, 0.05)))
    assert found.variant == "zigzag"
    for seed in range(20):
        assert oscillation.outcome(a_run(loss__train=1.0 + noise(n, 0.3, seed))).status is Status.BLIND


def test_losses_of_different_samples_that_bounce_together_show_swinging_weights() -> None:
    swing = 0.3 * np.random.default_rng(1).normal(size=30) + np.r_[1.5, 0.7, np.zeros(28)]
    both = {"loss/train": 1.2 + swing + noise(30, 0.03, 2), "loss/val": 1.3 + swing + noise(30, 0.03, 3)}
    [found] = the(a_run(both, facts={"step_unit": "epoch"}).with_(facts={}))
    assert found.variant == "together"
    apart = {"loss/train": 1.2 + swing, "loss/val": 1.3 + 0.3 * np.random.default_rng(9).normal(size=30)}
    assert not [f for f in oscillation.outcome(a_run(apart)).findings if f.variant == "together"]


def test_a_validation_loss_that_zigzags_widely_is_a_hint() -> None:
    val = np.array([2.0, 1.2, 1.7, 1.1, 1.8, 1.3, 1.9, 1.2, 1.6, 1.1, 1.7, 1.2])
    run = a_run({"loss/train": np.linspace(2, 0.5, 12), "loss/val": val}, facts={"step_unit": "epoch"})
    [found] = the(run)
    assert (found.variant, found.confidence) == ("bounces", Confidence.SUGGESTIVE)
    calm = a_run({"loss/train": np.linspace(2, 0.5, 12), "loss/val": zoo.falling(12, 2.0, 0.6, 2) + noise(12, 0.02)})
    assert oscillation.outcome(calm.with_(facts={"step_unit": "epoch"})).status is Status.BLIND


def test_its_limit_is_the_ratio() -> None:
    assert not [f for f in the(sampled(shake=0.6), fire=1e6) if f.severity > Severity.INFO]


def test_a_second_loss_of_the_same_batch_is_no_validation() -> None:
    rng = np.random.default_rng(0)
    y = 1 + np.exp(-np.arange(300) / 30) + 0.2 * rng.standard_normal(300)
    both = {"loss/train": y, "loss/val": y * 0.98, "batch/size": np.full(300, 32.0), "eval/samples": np.full(300, 32.0)}
    assert not [f for f in oscillation.outcome(a_run(both)).findings if f.variant == "together"]
