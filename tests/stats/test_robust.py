"""Order statistics against slow, obvious twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from traindx import stats
from traindx.stats.robust import median


def slow_z(y: np.ndarray, past: int = 200, least: int = 50) -> np.ndarray:
    out = np.zeros(len(y))
    for i in range(least, len(y)):
        before = y[max(0, i - past) : i]
        middle = np.median(before)
        out[i] = (y[i] - middle) / max(1.4826 * np.median(np.abs(before - middle)), 1e-9 * abs(middle))
    return out


@pytest.mark.parametrize("n", [10, 60, 199, 200, 201, 900])
def test_robust_z_equals_its_slow_twin(n: int) -> None:
    y = np.random.default_rng(n).gamma(2, size=n)
    np.testing.assert_allclose(stats.robust_z(y), slow_z(y), rtol=1e-9, atol=1e-12)


def test_a_long_series_renews_its_baseline_less_often_and_stays_close() -> None:
    y = np.random.default_rng(0).normal(size=3000)
    assert np.abs(stats.robust_z(y, detail=500) - slow_z(y)).max() < 0.6


def test_the_baseline_never_sees_the_future() -> None:
    y = np.random.default_rng(0).normal(size=1000)
    later = y.copy()
    later[700:] += 50
    np.testing.assert_array_equal(stats.robust_z(y, detail=100)[:700], stats.robust_z(later, detail=100)[:700])


def test_robust_z_of_a_constant_is_zero_not_nan() -> None:
    assert not stats.robust_z(np.zeros(500)).any()


@pytest.mark.parametrize("n", [1, 2, 5, 51, 200])
def test_running_median_equals_its_slow_twin_inside(n: int) -> None:
    y = np.random.default_rng(n).normal(size=n)
    half = min(25, max(0, (n - 1) // 2))
    got = stats.running_median(y, 51)
    assert len(got) == n
    for i in range(half, n - half):
        assert got[i] == pytest.approx(np.median(y[i - half : i + half + 1]))


def test_block_means_cover_every_point_once() -> None:
    y = np.random.default_rng(1).normal(size=101)
    centres, means = stats.block_means(y, 24)
    edges = np.linspace(0, 101, 25).astype(int)
    np.testing.assert_allclose(means, [y[a:b].mean() for a, b in pairwise(edges)])
    assert np.all(np.diff(centres) > 0)


def test_kendall_equals_the_library() -> None:
    from scipy.stats import kendalltau

    y = np.random.default_rng(2).normal(size=80)
    assert stats.kendall(y) == pytest.approx(kendalltau(np.arange(80), y).statistic)


def test_noise_is_measured_under_a_trend() -> None:
    y = np.linspace(0, 100, 400) + np.random.default_rng(0).normal(size=400)
    assert stats.noise_sigma(y) == pytest.approx(1.0, rel=0.25)


def test_quantiles_and_shares_ignore_what_is_not_finite() -> None:
    assert stats.quantiles([1.0, 2.0, 3.0, np.inf, np.nan], 0.0, 1.0) == (1.0, 3.0)
    assert stats.share_above([1.0, 3.0, np.nan], 2.0) == 0.5
    assert np.isnan(stats.share_above([], 2.0))


@pytest.mark.parametrize("n", [1, 10, 25, 26, 300])
def test_trailing_median_equals_its_slow_twin(n: int) -> None:
    y = np.random.default_rng(n).normal(size=n)
    twin = [y[0], *(np.median(y[max(0, i - 25) : i]) for i in range(1, n))]
    np.testing.assert_allclose(stats.trailing_median(y), twin)


@pytest.mark.parametrize("odd", [None, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 2, 3, 50, 151, 2500])
def test_the_quick_median_is_numpys_to_the_bit(n: int, odd: float | None) -> None:
    values = np.random.default_rng(n).standard_normal(n)
    if odd is not None:
        values[n // 3] = odd
    np.testing.assert_array_equal(median(values), np.median(values))
