"""Spikes and excess variance against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from bench import curves as bench

from patience import not_hanging
from runs import noise
from traindx import stats


@pytest.mark.parametrize("name", list(bench.NOISES))
def test_noise_of_many_kinds_is_no_spike(name: str) -> None:
    found = stats.spike_events(bench.noisy_curve(np.random.default_rng(2), 5000, **bench.NOISES[name]))
    assert len(found.state) <= 1 and len(found.batch) <= 3


def test_decaying_spikes_are_state_events_and_lone_ones_batch_events() -> None:
    assert bench.injected(1.5, 10, 5000)[0] >= 0.95
    state, batch = bench.injected(2.0, 0.1, 5000)
    assert state <= 0.1 and batch >= 0.9


def test_a_spike_tells_when_it_was_over() -> None:
    y = 1 + noise(1000, 0.02)
    y[500:560] += np.exp(-np.arange(60) / 15)
    [spike] = stats.spike_events(y).state
    assert spike.index == 500 and 1.8 < spike.peak < 2.2
    assert spike.recovered_after is not None and 20 < spike.recovered_after < 90


def test_a_step_that_stays_up_never_recovers() -> None:
    y = 1 + noise(1000, 0.02)
    y[500:] += 1
    [spike, *_] = stats.spike_events(y).state
    assert spike.recovered_after is None


def test_a_million_points_are_read() -> None:
    y = np.random.default_rng(0).normal(size=1_000_000)
    with not_hanging():
        stats.spike_events(y)


def test_excess_variance_is_one_for_pure_sampling() -> None:
    rng = np.random.default_rng(0)
    each = rng.gamma(0.5, 2.0, size=(800, 32))  # skewed per-sample losses, coefficient of variation above 1
    assert stats.evr(each.mean(1), each.var(1, ddof=1), np.full(800, 32)) == pytest.approx(1.0, abs=0.15)


def test_excess_variance_grows_with_a_zigzag_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    each = rng.gamma(2.0, 1.0, size=(800, 64))
    loss = each.mean(1) + 0.6 * (-1.0) ** np.arange(800)
    assert stats.evr(loss, each.var(1, ddof=1), np.full(800, 64)) > 3


def test_excess_variance_of_nothing_is_not_a_number() -> None:
    assert np.isnan(stats.evr(np.ones(100), np.zeros(100), np.ones(100)))
    assert np.isnan(stats.evr(np.ones(10), np.ones(10), np.ones(10)))


def test_spread_is_told_by_window() -> None:
    y = np.r_[noise(400, 0.1), noise(400, 1.0)]
    calm, wild = stats.spread_windows(y, 400)
    assert wild / calm == pytest.approx(10, rel=0.3)


def test_a_jump_on_a_steep_slope_is_seen() -> None:
    y = 2.3 * np.exp(-np.arange(600) / 120) + noise(600, 0.01)
    y[300:360] += 0.8 * np.exp(-np.arange(60) / 15)
    assert [s.index for s in stats.spike_events(y).state] == [300]
