"""Levels with a meaning, and the gradient noise scale."""

from __future__ import annotations

import math

import pytest
from bench import curves as bench

from traindx import stats


@pytest.mark.parametrize("row", [*bench.constants(), *bench.noise_scales(30)], ids=lambda r: r[0])
def test_measured_figures_lie_in_their_ranges(row: bench.Row) -> None:
    what, value, lo, hi = row
    assert lo <= value <= hi, what


def test_a_plateau_at_chance_is_named() -> None:
    [match] = stats.floor_match(2.3030, 0.001, stats.known_floors(classes=10))
    assert match.name == "uniform" and match.value == pytest.approx(math.log(10)) and match.chance < 0.05


def test_a_plateau_elsewhere_is_not() -> None:
    assert not stats.floor_match(1.9, 0.001, stats.known_floors(classes=10))


def test_an_uncertain_level_matches_wider_and_says_how_likely_by_chance() -> None:
    [match] = stats.floor_match(2.25, 0.05, {"uniform": math.log(10)})
    [surer] = stats.floor_match(2.3, 0.01, {"uniform": math.log(10)})
    assert match.chance > 3 * surer.chance


def test_the_prior_of_unequal_classes_is_its_entropy() -> None:
    assert stats.known_floors(prior=[900, 100])["prior"] == pytest.approx(0.3251, abs=1e-4)


def test_a_lost_signal_gives_a_bound_not_a_number() -> None:
    found = stats.gns([1.0, 1.1, 0.9, 1.0], [0.25, 0.27, 0.22, 0.26], 16, 64)
    assert found.value is None and found.hi == math.inf and found.lo > 0
