"""Mending curves: runs written one after another into one file, resumes, repeated steps, several writers, rounding.

Works on the order of writing. A counter that goes back to where it began starts another run; one that goes back only part
of the way is a resume, after which the later records are believed (CATALOGUE rows 68, 83; the quirks of shared logs).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traindx.run import Floats, Ints

MOST_SEAMS = 1000  # of one log; a counter that goes back more often is no counter of one process


@dataclass(frozen=True)
class Seam:
    """The counter went back: the run was resumed at `step` after it had reached `before`."""

    row: int
    step: float
    before: float


@dataclass
class Stretch:
    """The records of one run within a log: its rows lie in [start, stop) of the order of writing."""

    start: int
    stop: int
    seams: list[Seam] = field(default_factory=list)


def typical_gap(x: Floats) -> float:
    """The usual distance between two different neighbours; 0 when there is none."""
    gaps = np.abs(np.diff(x))
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else 0.0


def unsorted(x: Floats) -> bool:
    """Whether records stand in no order at all (shuffled, newest first) or were written by several processes at once."""
    if len(x) < 3:
        return False
    change = np.diff(x)
    back = change[change < 0]
    if len(back) == 0:
        return False
    if len(back) > 0.2 * len(change) and len(x) >= 5:
        return not _sawtooth(x)
    span = float(np.max(x) - np.min(x))
    if len(back) > MOST_SEAMS:
        return not _sawtooth(x)
    return len(back) > 10 and float(np.median(-back)) < 0.05 * span and not _sawtooth(x)


def _sawtooth(x: Floats) -> bool:
    """Whether the counter merely restarts often: after nearly every step back it is at the lowest value again."""
    back = np.flatnonzero(np.diff(x) < 0) + 1
    low = float(np.min(x)) + 0.02 * float(np.max(x) - np.min(x))
    return bool(np.mean(x[back] <= low) > 0.9) and len(back) < 0.5 * len(x)


def stretches(rows: Ints, x: Floats, end: int) -> list[Stretch]:
    """The runs in a log whose counter reads `x` at `rows`; `end` is one past the last row of the log."""
    out = [Stretch(0, end)]
    if len(x) < 2:
        return out
    begun = seen = 0
    top, gap = float(x[0]), typical_gap(x)
    for i in (np.flatnonzero(np.diff(x) < 0) + 1).tolist():
        first, top = x[begun], max(top, float(np.max(x[seen:i])))
        seen = i
        if x[i] >= top - gap and i - begun > 2:
            continue  # an evaluation that is written a moment late, a bar that was drawn once more
        near = max(2 * gap, 0.02 * (top - first))
        own = x[i + 1] - x[i] if i + 1 < len(x) else 0.0  # a count that begins with its own distance began at zero
        if x[i] <= max(first + near, own):
            out[-1].stop = int(rows[i])
            out.append(Stretch(int(rows[i]), end))
            begun, top = i, float(x[i])
        else:
            out[-1].seams.append(Seam(int(rows[i]), float(x[i]), top))
    return out


def within_epoch(step: Floats, epoch: Floats) -> Floats | None:
    """A counter that restarts with every epoch, made one that does not; None when it is no such counter.

    Where the epoch itself goes back, another run begins, and its count begins anew.
    """
    back = np.flatnonzero(np.diff(step) < 0) + 1
    back = back[epoch[back] >= epoch[back - 1]]
    if len(back) == 0 or np.any(~np.isfinite(epoch)):
        return None
    risen = epoch[back] > epoch[back - 1]
    fresh = step[back] <= np.min(step) + 2 * max(1.0, typical_gap(step))
    if np.mean(risen & fresh) < 0.9:
        return None
    runs = np.concatenate([[0], np.cumsum(np.diff(epoch) < 0)])
    first = np.array([np.floor(epoch[runs == r][0]) for r in range(int(runs[-1]) + 1)])
    per = float(np.max(step)) + (1.0 if np.min(step) == 0 else 0.0)
    joined: Floats = (np.floor(epoch) - first[runs]) * per + step
    return joined


def last_of_each(x: Floats) -> Ints:
    """Indexes that put records in order of x with one record each: of several at the same place the last written."""
    order = np.argsort(x, kind="stable")
    keep = np.append(np.diff(x[order]) > 0, True) if len(order) else np.empty(0, bool)
    kept: Ints = order[keep].astype(np.int64)
    return kept


def fresh(values: Floats, epoch: Floats) -> NDArray[np.bool_]:
    """Which records are new: the value is another one, or the same one for two epochs.

    >>> fresh(np.array([7.0, 7.0, 7.0, 7.0, 2.0]), np.array([0.0, 1.0, 1.0, 2.0, 2.0])).tolist()
    [True, False, False, True, True]
    """
    if not len(values):
        return np.empty(0, dtype=bool)
    same = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    changed = np.append(True, ~same)
    since = np.maximum.accumulate(np.where(changed, np.arange(len(values)), 0))
    pairs = (epoch - epoch[since]) // 2
    again: NDArray[np.bool_] = changed | np.append(False, np.diff(pairs) > 0)
    return again


def after_seams(rows: Ints, x: Floats, seams: list[Seam]) -> Ints:
    """Indexes of the records that still count when at each seam everything from its step on is written anew."""
    keep = np.ones(len(rows), dtype=bool)
    for seam in seams:
        keep &= ~((rows < seam.row) & (x >= seam.step))
    return np.flatnonzero(keep).astype(np.int64)


def decimals(values: Floats, most: int = 6) -> int | None:
    """How many decimals the numbers were rounded to; None when they carry more than `most`."""
    finite = values[np.isfinite(values)][:5000]
    if len(finite) < 5:
        return None
    for d in range(most + 1):
        scaled = finite * 10.0**d
        if np.all(np.abs(scaled - np.round(scaled)) <= 1e-7 * np.maximum(1.0, np.abs(scaled))):
            return d
    return None


def intervals(x: Floats) -> tuple[float, list[tuple[float, float]]]:
    """The usual distance between records, and where it changed for good: (from x on, new distance)."""
    gaps = np.diff(x)
    gaps = gaps[gaps > 0]
    if len(gaps) == 0:
        return 1.0, []
    usual = float(np.median(gaps))
    changes: list[tuple[float, float]] = []
    if len(gaps) >= 20:
        half = len(gaps) // 2
        a, b = float(np.median(gaps[:half])), float(np.median(gaps[half:]))
        if a > 0 and not 0.67 < b / a < 1.5:
            at = int(np.argmax(np.abs(gaps - b) <= 0.2 * b))
            changes.append((float(x[at]), b))
    return usual, changes


def place_by_time(x: Floats, times: Floats, ref_x: Floats, ref_times: Floats) -> Floats:
    """Positions on another track's axis by the clock: the last reference record that was written before each time."""
    order = np.argsort(ref_times, kind="stable")
    index = np.searchsorted(ref_times[order], times, side="right") - 1
    placed = ref_x[order][np.clip(index, 0, len(order) - 1)]
    return np.maximum.accumulate(placed) if len(placed) else x


def per_step(x: Floats, values: Floats, times: Floats | None) -> float:
    """What makes a recorded duration one of a step: 1, or 1 / steps between records; 0 when it cannot be one.

    A total that runs rises, over the training or over each epoch. Next to a clock the durations must add up to the time that
    passed, counted by step or by record; else nothing is said about speed.
    """
    if len(values) < 2 or np.mean(np.diff(values) > 0) > 0.8 or (np.all(np.diff(values) >= 0) and np.ptp(values) > 0):
        return 0.0
    span, steps = (0.0, 0.0) if times is None else (np.ptp(times), np.ptp(x))
    if not span or not steps:
        return 1.0
    each = float(np.nanmedian(values))
    if not each or each * steps <= 3 * span:
        return 1.0 if each * steps > 0.1 * span or not each else 0.0  # what a step took, the rest went elsewhere
    return (len(values) - 1) / steps if 0.1 * span < each * (len(values) - 1) <= 3 * span else 0.0
