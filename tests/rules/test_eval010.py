"""EVAL010: surer, not better."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.eval010_confidence_without_decisions import confidence_without_decisions as rule
from traindx.run import Run

N = 2000
FALLING = 1.0 - 0.4 * np.arange(N) / N + noise(N, 0.02)


def _run(accuracy: np.ndarray, loss: np.ndarray = FALLING) -> Run:
    return a_run(loss__train=loss, accuracy__train=accuracy)


def test_a_falling_loss_at_flat_accuracy_is_a_remark() -> None:
    [found] = rule.findings(_run(0.8 + noise(N, 0.02, seed=5)))
    assert found.severity is Severity.INFO and "80" in found.message


def test_accuracy_that_rises_is_clear() -> None:
    assert rule.outcome(_run(0.5 + 0.4 * np.arange(N) / N + noise(N, 0.02))).status is Status.CLEAR


def test_nothing_is_left_to_decide_at_the_ceiling() -> None:
    assert rule.outcome(_run(0.99 + noise(N, 0.003))).status is Status.CLEAR


def test_a_flat_loss_is_clear() -> None:
    assert rule.outcome(_run(0.8 + noise(N, 0.02), 0.5 + noise(N, 0.02))).status is Status.CLEAR


def test_coarse_accuracy_is_unsure() -> None:
    accuracy, loss = (0.6 + noise(N, 0.5, seed=2))[::10], FALLING[::10]
    assert rule.outcome(_run(accuracy, loss)).status is Status.UNSURE


def test_the_mirror_is_seen_in_curves_of_every_step() -> None:
    for n in (60, 250, N):
        rising, flat = 0.2 + 0.6 * np.arange(n) / n + noise(n, 0.02), 0.9 + noise(n, 0.02)
        [found] = rule.findings(_run(rising, flat))
        assert found.variant == "mirror" and found.facts["accuracy"] > 0.65


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(_run(0.8 + noise(N, 0.02, seed=5)), ceiling=0.7))
