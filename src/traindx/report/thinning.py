"""Fewer points that look the same: lines keep their spikes, tables keep what is not finite."""

from __future__ import annotations

import numpy as np

from traindx.run import Floats, Ints, Matrix

POINTS = 700  # what 700 pixels can show; minima and maxima survive the thinning
BROKEN = 50  # seams of non-finite stretches that are kept besides


def thin(steps: Ints, values: Floats, most: int = POINTS) -> tuple[Ints, Floats]:
    """At most `most` points (and a few seams) that look the same: a one-step spike stays visible, so does a NaN."""
    if len(values) <= most:
        return steps, values
    from tsdownsample import MinMaxLTTBDownsampler

    sound = np.isfinite(values)
    finite = values if sound.all() else np.where(sound, values, np.median(values[sound]) if sound.any() else 0.0)
    finite = np.ascontiguousarray(finite)  # a column of a table is not
    keep = MinMaxLTTBDownsampler().downsample(np.ascontiguousarray(steps), finite, n_out=most).astype(np.int64)
    keep = np.union1d(keep, [np.argmin(finite), np.argmax(finite)])  # LTTB goes by areas: it may pass over the lowest point
    if sound.all():
        return steps[keep], values[keep]
    seams = np.flatnonzero(np.diff(np.r_[True, sound, True].astype(np.int8)))
    seams = np.clip(np.unique(np.r_[seams, seams - 1])[:BROKEN], 0, len(values) - 1)
    keep = np.union1d(keep, seams)
    return steps[keep], values[keep]


def blocks(matrix: Matrix, rows: int, columns: int, always: tuple[str, ...] = ()) -> tuple[list[str], Floats, Ints]:
    """At most rows x columns cells: layers picked evenly (`always` among them), steps in blocks that keep an infinity."""
    picked = np.unique(np.linspace(0, len(matrix.names) - 1, min(rows, len(matrix.names))).astype(int))
    named = [i for i, name in enumerate(matrix.names) if name in always][:rows]
    if named:
        picked = np.unique(np.r_[np.setdiff1d(picked, named)[: max(0, rows - len(named))], named]).astype(int)
    groups = np.array_split(np.arange(len(matrix)), min(columns, len(matrix)))
    table = np.full((len(picked), len(groups)), np.nan)
    for j, group in enumerate(groups):
        block = matrix.values[group][:, picked]
        table[:, j] = np.where(np.isinf(block).any(axis=0), np.inf, _medians(block))
    return [matrix.names[i] for i in picked], table, matrix.steps[[int(g[-1]) for g in groups]]


def _medians(block: Floats) -> Floats:
    out = np.full(block.shape[1], np.nan)
    seen = np.isfinite(block).any(axis=0)
    if seen.any():
        out[seen] = np.nanmedian(np.where(np.isfinite(block[:, seen]), block[:, seen], np.nan), axis=0)
    return out


def smooth(values: Floats, window: int) -> Floats:
    """A running median, the tails included; shows where a noisy curve goes."""
    if window < 3 or len(values) <= window:
        return values
    half = window // 2
    padded = np.pad(values, half, mode="reflect")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1), dtype=np.float64)


def numbers(values: Floats) -> list[float | None]:
    """Six digits are more than a screen shows; JSON has no NaN."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]
