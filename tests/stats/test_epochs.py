"""Patterns locked to epochs, and forms of logging."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

from runs import noise
from traindx import stats


@pytest.mark.parametrize("row", list(bench.epoch_patterns(8)), ids=lambda r: r[0])
def test_measured_figures_lie_in_their_ranges(row: bench.Row) -> None:
    what, value, lo, hi = row
    assert lo <= value <= hi, what


def test_ranks_share_ties_like_the_library() -> None:
    from scipy.stats import rankdata

    from traindx.stats.robust import ranks

    y = np.array([1.0, 2.0, 2.0, 5.0, 0.0, 2.0])
    np.testing.assert_allclose(ranks(y), rankdata(y))


def test_an_exponential_average_is_told_from_raw_losses() -> None:
    raw = 2 + noise(600, 0.1)
    smooth = np.empty_like(raw)
    smooth[0] = raw[0]
    for i in range(1, len(raw)):
        smooth[i] = 0.9 * smooth[i - 1] + 0.1 * raw[i]
    assert stats.log_form(smooth) == "ema" and stats.log_form(raw) == "raw"


def test_negative_losses_keep_their_scale() -> None:
    y = bench.epochs_sim("fixed", 0) - 3
    assert stats.epoch_profile_corr(y, 40).m > 0.3


def test_too_few_epochs_say_nothing() -> None:
    assert stats.epoch_profile_corr(np.ones(60), 40).pairs == 0
    assert stats.boundary_jump(np.ones(60), 40).boundaries == 0


def test_a_steep_smooth_course_has_no_shape_of_its_epochs() -> None:
    t = np.arange(336)
    falls = 500 * np.exp(-t / 40) + 2.3 + 0.01 * np.random.default_rng(0).standard_normal(336)
    assert stats.epoch_profile_corr(falls, 28).m < 0.3
    batches = np.tile(np.random.default_rng(1).standard_normal(28), 12)
    assert stats.epoch_profile_corr(falls * np.exp(0.1 * batches), 28).m > 0.3


@pytest.mark.parametrize("teeth", [2, 4, 8, 10, 20])
def test_data_sorted_by_class_repeat_themselves_within_an_epoch_and_still_count(teeth: int) -> None:
    rng = np.random.default_rng(0)
    tooth = [np.linspace(1.5, 0.5, len(part)) for part in np.array_split(np.arange(60), teeth)]
    loss = np.concatenate([np.concatenate(tooth) * np.exp(-e / 12) + rng.normal(0, 0.05, 60) for e in range(8)])
    found = stats.epoch_profile_corr(np.maximum(loss, 1e-3), 60)
    assert found.m > 0.5 and found.z > 8
