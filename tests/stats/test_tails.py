"""Tails against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as reference

from traindx.stats.tails import at_least_each, greater, most_expected, student_quantile, student_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 4.5, 9, 30, 99, 101, 1e4, 1e6])
@pytest.mark.parametrize("t", [-3.0, 0.0, 0.5, 2.0, 6.0, 25.0])
def test_tail_of_student(t: float, freedom: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(reference.t.sf(t, freedom), rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("freedom", [1, 2, 5, 40, 500])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.975, 0.99])
def test_quantile_of_student(p: float, freedom: float) -> None:
    assert student_quantile(p, freedom) == pytest.approx(reference.t.ppf(p, freedom), rel=1e-7, abs=1e-9)


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for shift in (-1.0, 0.0, 0.3, 2.0):
        a, b = rng.normal(shift, 1, 60), rng.normal(0, 3, 200)
        assert greater(a, b) == pytest.approx(
            reference.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue, rel=1e-6
        )
    assert np.isnan(greater([1.0, 1.0], [1.0, 1.0]))


def test_fishers_exact_test_is_scipys() -> None:
    for hits, total, marked, drawn in ((0, 9, 3, 4), (2, 9, 3, 4), (6, 30, 12, 7), (40, 300, 60, 90)):
        assert at_least_each(total, marked, drawn)[hits] == pytest.approx(
            reference.hypergeom.sf(hits - 1, total, marked, drawn)
        )


@pytest.mark.parametrize("count", [0, 0.5, 1, 3, 10, 1000])
def test_most_that_a_count_allows_is_within_a_percent(count: float) -> None:
    assert most_expected(count) == pytest.approx(reference.chi2.ppf(0.95, 2 * count + 2) / 2, rel=0.01)
