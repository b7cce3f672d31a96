"""Did a condition last?"""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from traindx.stats import persistence
from traindx.stats.persistence import finite_median, k_of_m, last_stretch, longest, rising


def test_the_examples_hold() -> None:
    assert doctest.testmod(persistence).failed == 0


@pytest.mark.parametrize(
    ("flags", "held"),
    [
        ([], False),
        ([1], False),
        ([1, 1, 1], True),
        ([1, 0, 1, 0, 1], True),
        ([1, 1, 1, 0], False),
        ([1, 1, 0, 0, 0, 0, 1], False),
    ],
)
def test_a_condition_holds_on_three_of_the_last_five_looks_and_now(flags: list[int], held: bool) -> None:
    assert k_of_m(flags) is held


def test_stretches() -> None:
    assert longest([]) == (0, -1) == longest([False])
    assert longest([True, True, False, True]) == (0, 1)
    assert last_stretch([]) == 0
    assert last_stretch([True, True]) == 2


def test_the_median_of_nothing_is_not_a_number() -> None:
    assert np.isnan(finite_median([np.nan, np.inf]))


@pytest.mark.parametrize(
    "curve", [np.geomspace(1, 1000, 40), np.linspace(0, 1, 40), np.sqrt(np.arange(40))], ids=["exp", "line", "root"]
)
def test_growth_of_any_shape_rises(curve: np.ndarray) -> None:
    assert rising(curve)


def test_noise_seldom_rises() -> None:
    rng = np.random.default_rng(0)
    assert sum(rising(rng.normal(size=60)) for _ in range(300)) <= 9
