"""Overfitting beyond noise: false alarms and power."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

from traindx import stats


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("kind", ["flat", "still falling", "restart"])
def test_curves_that_do_not_overfit_never_alarm(kind: str, noise: float) -> None:
    assert bench.alarm_rate(kind, noise, 20) == 0


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
def test_a_strong_rise_always_does(noise: float) -> None:
    assert bench.alarm_rate("strong", noise, 10) == 1


def test_a_noisy_flat_curve_fools_the_classic_rule() -> None:
    _, val = bench.evaluations(np.random.default_rng(0), "flat", 0.05)
    assert max(stats.prechelt_gl(val[: i + 1]) for i in range(10, 40)) > 2


def test_it_names_the_best_evaluation() -> None:
    train, val = bench.evaluations(np.random.default_rng(0), "strong", 0.005)
    found = stats.overfit_na(val, train)
    assert found.fired is not None and 9 <= found.best <= 14
    assert found.rise_relative > 0.5 and found.train_fell > 0


def test_negative_losses_are_judged_by_their_drop() -> None:
    train, val = bench.evaluations(np.random.default_rng(0), "strong", 0.005)
    shifted = stats.overfit_na(val - 5, train - 5, negative=True)
    assert shifted.fired is not None and np.isnan(shifted.gl)


def test_few_evaluations_are_no_evidence() -> None:
    assert stats.overfit_na([1.0, 0.5, 0.6, 0.7], [1.0, 0.5, 0.3, 0.1]).fired is None
