"""OPTM013: a rate that has become too high."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm013_late_instability import late_instability


def the(run, **limits):
    return list(late_instability.findings(run, **limits))


def narrowing(shake: float = 0.5, n: int = 4000, **more):
    """Pure sampling noise at first, a swing of the weights in the last third."""
    rng = np.random.default_rng(0)
    each = rng.gamma(1.0, 1.0, size=(n, 32)) * (0.6 + 1.6 * np.exp(-np.arange(n) / 150))[:, None]
    late = np.clip((np.arange(n) - 2 * n // 3) / 200, 0, 1)
    loss = each.mean(1) + shake * late * np.sin(2.3 * np.arange(n))
    signals = {
        "loss/train": loss,
        "loss/sample_var": each.var(1, ddof=1),
        "batch/size": np.full(n, 32.0),
        "lr": np.full(n, 0.1),
    }
    return a_run({**signals, **more.pop("signals", {})}, facts=more)


def test_shaking_that_came_late_is_a_hypothesis_until_a_trial_confirms_it() -> None:
    [found] = the(narrowing())
    assert found.confidence is Confidence.SUGGESTIVE and found.facts["growth"] > 2
    trial = {"trial.lr_tenth": {"train": -0.3, "train_continued": -0.02, "significant": True}}
    [found] = the(narrowing(**trial))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.STRONG)


def test_pure_sampling_noise_is_clear() -> None:
    assert the(narrowing(shake=0.0)) == []


def test_a_decayed_rate_is_clear() -> None:
    assert the(narrowing(signals={"lr": np.linspace(0.1, 0.001, 4000)})) == []


def test_too_few_steps_since_it_settled_are_unsure() -> None:
    assert late_instability.outcome(narrowing(n=420)).status is not Status.FOUND


def test_without_the_spread_of_samples_it_is_blind() -> None:
    run = a_run(loss__train=np.ones(1000), lr=np.full(1000, 0.1))
    assert late_instability.outcome(run).status is Status.BLIND


def test_a_rate_raised_after_convergence_is_named_with_its_step() -> None:
    n = 1400
    loss = 0.02 + 0.6 * np.exp(-np.arange(n) / 60) + noise(n, 0.003)
    loss[600:] += 0.15 + 2 * np.exp(-np.arange(800) / 60)
    rate = np.where(np.arange(n) < 600, 0.001, 0.1)
    [found] = the(a_run(loss__train=loss, lr=rate))
    assert (found.variant, found.severity, found.steps[0]) == ("raised", Severity.WARNING, 600)


def test_a_raise_that_pays_is_fine() -> None:
    n = 1400
    loss = 0.5 + 0.6 * np.exp(-np.arange(n) / 60) + noise(n, 0.003)
    loss[600:] += 0.3 * np.exp(-np.arange(800) / 60) - 0.2 * (1 - np.exp(-np.arange(800) / 200))
    run = a_run(loss__train=loss, lr=np.where(np.arange(n) < 600, 0.001, 0.1))
    assert late_instability.outcome(run).status is not Status.FOUND


def test_its_limit_is_the_growth() -> None:
    assert the(narrowing(), growth=1e3) == []
