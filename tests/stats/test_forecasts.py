"""Forecasts: coverage, and refusal where the family does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

from traindx import stats


def test_the_interval_covers_the_truth() -> None:
    inside, refused = bench.coverage(40)
    assert inside >= 0.85 and refused <= 0.2


@pytest.mark.parametrize("name", list(bench.MISFITS))
def test_a_curve_of_another_kind_is_refused(name: str) -> None:
    t = np.arange(2000.0) + 1
    y = bench.MISFITS[name](t) * (1 + 0.03 * np.random.default_rng(0).standard_normal(2000))
    assert "does not predict" in stats.forecast(y, 4000, floor=0.0).refused


def test_an_exponential_goes_to_its_floor() -> None:
    t = np.arange(2000.0)
    y = (1 + 2 * np.exp(-t / 300)) * (1 + 0.03 * np.random.default_rng(3).standard_normal(2000))
    found = stats.forecast(y, 8000, floor=0.0)
    assert found.family == "exponential" and found.value == pytest.approx(1.0, abs=0.02)


def test_the_fit_equals_plain_least_squares_at_the_true_shape() -> None:
    t = np.arange(1, 3001.0)
    y = 0.7 + 2.0 * t**-0.5
    found = stats.forecast(y, 30_000)
    assert found.value == pytest.approx(0.7 + 2.0 * 30_000**-0.5, abs=2e-3) and found.gain > 0


def test_a_known_floor_is_never_undercut() -> None:
    y = 1.0 + 3 * np.arange(1, 1001.0) ** -0.1 + np.random.default_rng(0).normal(size=1000) * 0.01
    assert stats.forecast(y, 1e9, floor=1.0).lo > 0.9


def test_short_or_broken_series_are_refused_with_the_reason() -> None:
    assert stats.forecast(np.ones(50), 100).refused == "it needs 200 records and has 50"
    assert "non-finite" in stats.forecast(np.r_[np.ones(300), np.nan], 400).refused
