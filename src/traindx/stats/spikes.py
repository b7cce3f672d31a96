"""Spikes and shaking: does a series jump, or shake, more than its own noise explains?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats, robust_z, running_median


@dataclass(frozen=True)
class Spike:
    """One event: where it began, how far out its peak was, how high, and how many points until it was back (None: never)."""

    index: int
    z: float
    peak: float  # largest value in the event
    base: float  # median before it
    recovered_after: int | None


@dataclass(frozen=True)
class Spikes:
    """Events of the two kinds: the weights were thrown (`state`), or one batch was extreme (`batch`)."""

    state: tuple[Spike, ...]
    batch: tuple[Spike, ...]


def spike_events(
    y: ArrayLike,
    *,
    high: float = 6.0,
    low: float = 2.5,
    lone: float = 12.0,
    look: int = 10,
    need: int = 3,
    patience: int = 200,
    past: int = 200,
    least: int = 50,
) -> Spikes:
    """State spikes (z > 6 and 3 of the next 10 points above 2.5) and batch spikes (z > 12 alone), CATALOGUE 2.4."""
    values = as_floats(y)
    z = robust_z(values, past, least)
    hot = np.flatnonzero(z > high)
    after = np.concatenate([[0], np.cumsum(z > low)])
    state: list[Spike] = []
    batch: list[Spike] = []
    free = 0
    for i in hot.tolist():
        if i < free:
            continue
        end = min(len(z), i + 1 + look)
        if after[end] - after[i + 1] >= need:
            spike = _spike(values, z, i, low, patience, past)
            state.append(spike)
            free = i + max(look, spike.recovered_after if spike.recovered_after is not None else patience)
        elif z[i] > lone:
            batch.append(_spike(values, z, i, low, patience, past))
    return Spikes(tuple(state), tuple(batch))


def _spike(values: Floats, z: Floats, i: int, low: float, patience: int, past: int) -> Spike:
    """Recovery is judged against the level before the event, so that a raised baseline does not look like recovery."""
    before = values[max(0, i - past) : i]
    base = float(np.median(before))
    limit = base + (values[i] - base) * low / z[i]
    rest = values[i : i + patience + 10]
    below = np.concatenate([[0], np.cumsum(rest < limit)])
    width = min(10, len(rest))
    calm = np.flatnonzero(below[width:] - below[:-width] >= math.ceil(0.7 * width))  # 7 of 10 points back below
    back = int(calm[0]) if len(calm) else None
    peak = float(np.max(rest[: (back or len(rest)) + 1]))
    return Spike(i, float(z[i]), peak, base, back)


def evr(loss: ArrayLike, sample_var: ArrayLike, batch: ArrayLike, width: int = 51) -> float:
    """Excess-variance ratio: variance of the loss around its running median over what sampling the batch explains.

    EVR = mean(r²) / mean(s²/B); about 1 when the zig-zag is pure mini-batch noise (CATALOGUE 2.5). NaN when undefined.
    """
    values, spread = as_floats(loss), as_floats(sample_var) / np.maximum(as_floats(batch), 1.0)
    keep = np.isfinite(values) & np.isfinite(spread)
    expected = float(np.mean(spread[keep])) if keep.any() else 0.0
    if keep.sum() < width or expected <= 0:
        return math.nan
    values = values[keep]
    return float(np.mean((values - running_median(values, width)) ** 2) / expected)


def spread_windows(y: ArrayLike, size: int, width: int = 51) -> Floats:
    """Robust deviation around the running median in consecutive windows of `size` points."""
    values = as_floats(y)
    rest = np.abs(values - running_median(values, width))
    count = len(values) // size
    if count == 0:
        return np.empty(0)
    return 1.4826 * np.median(rest[len(rest) - count * size :].reshape(count, size), axis=1)
