"""Slopes, verdicts and change points against libraries and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

from runs import noise
from traindx import stats
from traindx.stats import Direction


def test_theil_sen_equals_the_library() -> None:
    from scipy.stats import theilslopes

    y = np.random.default_rng(0).normal(size=24) + 0.1 * np.arange(24)
    mine, theirs = stats.theil_sen(y, alpha=0.05), theilslopes(y, alpha=0.95)
    assert mine.value == pytest.approx(theirs.slope)
    assert (mine.lo, mine.hi) == (pytest.approx(theirs.low_slope, rel=0.05), pytest.approx(theirs.high_slope, rel=0.05))


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_a_flat_series_is_seldom_called_sloped(phi: float) -> None:
    naive, ours = bench.false_slopes(phi, 80)
    assert ours <= 0.12
    if phi == 0.9:
        assert naive > 0.25, "the plain test must fail here, or the blocks are not needed"


@pytest.mark.parametrize("name", list(bench.CURVES))
def test_at_low_noise_the_verdict_is_right(name: str) -> None:
    assert bench.verdicts(name, 0.02, 8)[bench.CURVES[name][1]] == 1.0


@pytest.mark.parametrize("name", list(bench.CURVES))
def test_where_noise_hides_the_effect_it_says_unsure_instead_of_guessing(name: str) -> None:
    said = bench.verdicts(name, 0.3, 12)
    assert said[bench.CURVES[name][1]] + said[Direction.UNSURE] >= 0.9


def test_unsure_names_resolution_and_need() -> None:
    y = 2 + 3 * np.exp(-np.arange(2000) / 50) + noise(2000, 0.5)
    found = stats.trend_verdict(y, 400, grow=False)
    assert found.direction is Direction.UNSURE
    assert found.resolution > 0.01 and found.needs > 400


def test_the_need_is_enough() -> None:
    y = 2 + 3 * np.exp(-np.arange(200_000) / 50) + noise(200_000, 0.1, seed=4)
    first = stats.trend_verdict(y[:4000], 1000, grow=False)
    assert first.direction is Direction.UNSURE
    size = 1000 + first.needs
    assert stats.trend_verdict(y[: size + 3000], size, grow=False).resolution < 0.02


def test_a_few_points_are_never_flat() -> None:
    assert stats.trend_verdict([2.34, 2.342, 2.341]).direction is Direction.UNSURE


def test_without_a_drop_the_noise_is_the_yard_stick() -> None:
    found = stats.trend_verdict(5 + noise(4000, 0.1), 1000)
    assert found.direction in (Direction.FLAT, Direction.UNSURE)
    up = stats.trend_verdict(np.linspace(0, 1, 4000) + noise(4000, 0.1), 1000)
    assert up.direction is Direction.RISING


def test_adding_a_constant_or_a_factor_changes_nothing() -> None:
    y = 2 + 3 * np.exp(-np.arange(3000) / 100) + noise(3000, 0.05)
    a, b, c = stats.trend_verdict(y), stats.trend_verdict(y - 10), stats.trend_verdict(1e6 * y)
    assert a.direction is b.direction is c.direction
    assert a.change == pytest.approx(b.change) == pytest.approx(c.change)


def test_a_level_shift_is_found_where_it_is() -> None:
    y = np.r_[np.zeros(300), np.ones(200)] + noise(500, 0.2)
    [at] = stats.change_points(y)
    assert abs(at - 300) <= 10
    index, strength = stats.cusum_shift(y)
    assert abs(index - 300) <= 10 and strength > 3


def test_pure_noise_has_seldom_a_change_point() -> None:
    found = [bool(stats.change_points(noise(400, 1.0, seed=s))) for s in range(40)]
    assert np.mean(found) <= 0.15


def test_pelt_equals_exhaustive_search() -> None:
    y = np.r_[noise(20, 1, 1), 5 + noise(15, 1, 2), 2 + noise(25, 1, 3)]
    sigma, n = stats.noise_sigma(y), len(y)
    z = y / sigma

    def cost(a: int, b: int) -> float:
        return float(((z[a:b] - z[a:b].mean()) ** 2).sum())

    penalty = 3 * np.log(n)
    splits = [((), cost(0, n))]
    splits += [((i,), cost(0, i) + cost(i, n) + penalty) for i in range(5, n - 4)]
    splits += [
        ((i, j), cost(0, i) + cost(i, j) + cost(j, n) + 2 * penalty) for i in range(5, n - 9) for j in range(i + 5, n - 4)
    ]
    assert stats.change_points(y) == min(splits, key=lambda s: s[1])[0]
