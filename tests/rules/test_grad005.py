"""GRAD005: more noise than signal."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.grad005_noise_dominated import noise_dominated


def the(run, **limits):
    return list(noise_dominated.findings(run, **limits))


def noisy(scale: float, n: int = 60, loss=None, batch: float = 32.0, **more):
    loss = 1.0 + noise(n, 0.05) if loss is None else loss
    return a_run(
        {"grad_noise_scale": scale * np.exp(noise(n, 0.3)), "batch/size": np.full(n, batch), "loss/train": loss, **more}
    )


def test_a_scale_far_above_the_batch_with_a_flat_loss_is_found() -> None:
    [found] = the(noisy(1e5))
    assert found.severity is Severity.WARNING and found.facts["batch"] == 32 and found.facts["times"] > 100


def test_a_scale_near_the_batch_is_clear() -> None:
    assert the(noisy(100.0)) == []


def test_while_the_loss_falls_it_does_not_matter() -> None:
    assert the(noisy(1e5, n=400, loss=zoo.falling(400) + noise(400, 0.01))) == []


def test_at_the_end_of_a_schedule_it_is_only_a_hint() -> None:
    [found] = the(noisy(1e5, lr=np.linspace(1, 0.001, 60)))
    assert found.confidence is Confidence.SUGGESTIVE


def test_few_estimates_are_a_hint() -> None:
    assert all(f.confidence is Confidence.SUGGESTIVE for f in the(noisy(1e5, n=20)))


def test_without_the_batch_size_it_is_blind() -> None:
    assert noise_dominated.outcome(a_run(grad_noise_scale=np.full(60, 1e5))).status is Status.BLIND


def test_its_limit_is_the_multiple() -> None:
    assert the(noisy(1e5), times=1e6) == []
