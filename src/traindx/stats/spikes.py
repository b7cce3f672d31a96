"""Spikes and shaking: does a series jump, or shake, more than its own noise explains?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats, robust_z, running_median, trailing_median


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
    """State spikes (z > 6 and 3 of the next 10 points above 2.5) and batch spikes (z > 12 alone), CATALOGUE 2.4.

    z is taken of what is left above the median of the last 25 points, so that a steep slope does not hide a jump.
    """
    values = as_floats(y)
    z = robust_z(values - trailing_median(values), past, least)
    hot = np.flatnonzero(z > high)
    need = max(need, _by_chance(float(np.mean(z > low)), look))
    after = np.concatenate([[0], np.cumsum(z > low)])
    state: list[Spike] = []
    batch: list[Spike] = []
    free = 0
    for i in hot.tolist():
        if i < free:
            continue
        end = min(len(z), i + 1 + look)
        if after[end] - after[i + 1] >= need:
            spike = _spike(values, z, i, low, patience)
            state.append(spike)
            free = i + max(look, min(50, spike.recovered_after if spike.recovered_after is not None else 50))
        elif z[i] > lone:
            batch.append(_spike(values, z, i, low, patience))
    return Spikes(tuple(state), tuple(batch))


def _by_chance(share: float, look: int, rare: float = 3e-3) -> int:
    """How many of the next `look` points must be high before chance is excluded, when `share` of all points are."""
    tail = [sum(math.comb(look, j) * share**j * (1 - share) ** (look - j) for j in range(k, look + 1)) for k in range(look + 1)]
    return next((k for k, p in enumerate(tail) if p < rare), look)


def _spike(values: Floats, z: Floats, i: int, low: float, patience: int) -> Spike:
    """Recovery is judged against the level before the event, so that a raised baseline does not look like recovery."""
    before = values[max(0, i - 25) : i]
    base = float(np.median(before))
    limit = base + (values[i] - base) * low / z[i]
    rest = values[i : i + patience + 10]
    below = np.concatenate([[0], np.cumsum(rest < limit)])
    width = min(10, len(rest))
    calm = np.flatnonzero(below[width:] - below[:-width] >= math.ceil(0.7 * width))  # 7 of 10 points back below
    back = int(calm[0]) if len(calm) else None
    peak = float(np.max(rest[: (back or len(rest)) + 1]))
    return Spike(i, float(z[i]), peak, base, back)


def peaks(y: ArrayLike, *, high: float = 8.0, width: int = 7, share: float = 0.1) -> tuple[Spike, ...]:
    """Peaks of a short or coarse series, judged afterwards: far above the median of their neighbours on both sides.

    For logs too short for `spike_events`. A peak must rise above the two records before it, by more than `high` robust
    deviations of all residuals and by more than `share` of the range of the running median.
    """
    values = as_floats(y)
    if len(values) < 6:
        return ()
    smooth = running_median(values, width)
    rest = values - smooth
    spread = 1.4826 * float(np.median(np.abs(rest)))
    floor = share * float(np.ptp(smooth)) + 1e-6 * float(np.median(np.abs(values)))
    limit = max(high * spread, floor)
    found: list[Spike] = []
    for i in np.flatnonzero(rest[:-1] > limit).tolist():  # the last record may as well be the start of a climb
        edge = 2.0 if i >= len(values) - 3 else 1.0  # near the end the median sees one side only
        rose = i >= 1 and values[i] - np.max(values[max(0, i - 2) : i]) > 0.5 * limit and rest[i] > edge * limit
        if found and i - found[-1].index <= 2 and values[i] > found[-1].peak:
            found[-1] = replace(found[-1], peak=float(values[i]), z=max(found[-1].z, float(rest[i] / max(spread, 1e-300))))
        elif rose and (not found or i - found[-1].index > 2):
            back = np.flatnonzero(values[i:] < smooth[i] + 0.5 * rest[i])
            after = int(back[0]) if len(back) else None
            found.append(Spike(i, float(rest[i]) / max(float(spread), 1e-300), float(values[i]), float(smooth[i]), after))
    return tuple(found)


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


def evr_windows(loss: ArrayLike, expected: ArrayLike, size: int, width: int = 51, least: int = 5) -> Floats:
    """EVR in consecutive windows of `size` records, newest last.

    `expected` is s²/B at each record and NaN where it was not sampled; a window needs `least` samples of it, else it is left
    out. The loss itself must be known at every record.
    """
    values, noise = as_floats(loss), as_floats(expected)
    rest = (values - running_median(values, width)) ** 2
    out = []
    for end in range(len(values), size - 1, -size):
        part = noise[end - size : end]
        part = part[np.isfinite(part)]
        if len(part) >= least and float(np.mean(part)) > 0:
            out.append(float(np.mean(rest[end - size : end])) / float(np.mean(part)))
    return np.array(out[::-1])


def spread_windows(y: ArrayLike, size: int, width: int = 51) -> Floats:
    """Robust deviation around the running median in consecutive windows of `size` points."""
    values = as_floats(y)
    rest = np.abs(values - running_median(values, width))
    count = len(values) // size
    if count == 0:
        return np.empty(0)
    return 1.4826 * np.median(rest[len(rest) - count * size :].reshape(count, size), axis=1)
