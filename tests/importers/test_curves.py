"""Cutting runs apart and mending curves."""

from __future__ import annotations

import numpy as np
import pytest

from traindx.importers import curves


def parts(x: list[float]) -> list[tuple[int, int, int]]:
    found = curves.stretches(np.arange(len(x)), np.asarray(x, float), len(x))
    return [(s.start, s.stop, len(s.seams)) for s in found]


def test_a_counter_that_begins_anew_is_another_run() -> None:
    assert parts([0, 1, 2, 3, 0, 1, 2, 0, 1]) == [(0, 4, 0), (4, 7, 0), (7, 9, 0)]


def test_a_counter_that_goes_back_half_way_is_a_resume() -> None:
    assert parts([*range(100), *range(60, 150)]) == [(0, 190, 1)]


def test_one_step_back_is_no_resume() -> None:
    assert parts([*range(30), 29, *range(30, 60)]) == [(0, 61, 0)]


def test_records_before_a_seam_give_way_to_those_after_it() -> None:
    x = np.array([*range(10), *range(6, 12)], float)
    [stretch] = curves.stretches(np.arange(16), x, 16)
    kept = curves.after_seams(np.arange(16), x, stretch.seams)
    assert x[kept].tolist() == list(range(12)) and kept[6] == 10


def test_shuffled_and_interleaved_records_are_recognised() -> None:
    rng = np.random.default_rng(0)
    assert curves.unsorted(rng.permutation(100).astype(float))
    assert curves.unsorted(np.arange(50, 0, -1.0))
    two = np.sort(np.concatenate([np.arange(400.0), np.arange(400.0)]))
    jumbled = two.copy()
    for i in range(5, 795, 20):
        jumbled[[i, i + 3]] = jumbled[[i + 3, i]]
    assert curves.unsorted(jumbled)


def test_restarts_and_resumes_are_not_taken_for_disorder() -> None:
    assert not curves.unsorted(np.array([0, 1, 2] * 12, float))
    assert not curves.unsorted(np.concatenate([np.arange(0.0, 400), *[np.arange(0.0, 30)] * 11]))
    assert not curves.unsorted(np.concatenate([np.arange(100.0), np.arange(50.0, 150)]))


def test_a_count_within_epochs_becomes_one_count() -> None:
    step = np.array([50, 100, 150, 50, 100, 150, 50], float)
    epoch = np.array([1, 1, 1, 2, 2, 2, 3], float)
    assert curves.within_epoch(step, epoch).tolist() == [50, 100, 150, 200, 250, 300, 350]  # type: ignore[union-attr]
    assert curves.within_epoch(np.arange(7.0), epoch) is None


def test_where_the_epoch_goes_back_too_the_joined_count_begins_anew() -> None:
    step, epoch = np.array([1, 2, 1, 2, 1, 2, 1, 2], float), np.array([0, 0, 1, 1, 0, 0, 1, 1], float)
    joined = curves.within_epoch(step, epoch)
    assert joined is not None and joined.tolist() == [1, 2, 3, 4, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("values", "places"), [([1.25, 3.5, 2.75, 1.0, 0.25], 2), ([1, 2, 3, 4, 5], 0), ([0.1234567891] * 5, None)]
)
def test_decimals(values: list[float], places: int | None) -> None:
    assert curves.decimals(np.array(values)) == places


def test_a_changed_interval_is_noticed() -> None:
    usual, changes = curves.intervals(np.concatenate([np.arange(0, 100, 1.0), np.arange(100, 1100, 10.0)]))
    assert usual in (1.0, 10.0) and changes and changes[0][1] == 10.0


def test_cutting_stays_linear_on_a_hostile_counter() -> None:
    x = np.tile(np.concatenate([np.arange(1000.0), np.arange(500.0, 1000)]), 600)
    curves.stretches(np.arange(len(x)), x, len(x))
    assert curves.unsorted(np.random.default_rng(0).normal(size=900_000))
