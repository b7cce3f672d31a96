"""Patterns locked to epochs, and what kind of average a log holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats, autocorrelation, ranks, running_median
from traindx.stats.trend import theil_sen


@dataclass(frozen=True)
class Profile:
    """How alike the inner shape of consecutive epochs is: mean rank correlation, its z, pairs of epochs."""

    m: float
    z: float
    pairs: int


@dataclass(frozen=True)
class Boundary:
    """Mean jump of the log-loss at epoch boundaries against the same statistic at other phases."""

    jump: float
    z: float
    boundaries: int


def _logs(y: Floats) -> Floats:
    """Logarithms where all values are positive, the values themselves where they are not."""
    positive = y[y > 0]
    if len(positive) < 0.99 * len(y):
        return y
    return np.asarray(np.log(np.maximum(y, 1e-4 * float(np.median(positive)))), dtype=np.float64)


_PARTS = (0.5, 0.38, 0.27)  # of an epoch; no number of equal teeth repeats itself at all three


def epoch_profile_corr(loss: ArrayLike, per_epoch: int, skip: int = 1) -> Profile:
    """Rank correlation of consecutive epochs, each freed of its own line (CATALOGUE 2.7); shuffled data give |m| ≤ .12.

    Where a smooth course is steeper than a line, stretches part of an epoch apart are alike as well: that much is not the
    epochs'. Several parts are tried, because data sorted by class repeat themselves at some of them: one tooth a class.
    """
    values = as_floats(loss)
    epochs = len(values) // per_epoch if per_epoch > 0 else 0
    if epochs - skip < 2 or per_epoch < 3:
        return Profile(0.0, 0.0, 0)
    logs = _logs(values[: epochs * per_epoch])
    table = logs.reshape(epochs, per_epoch)[skip:]
    apart = [int(part * per_epoch) for part in _PARTS]
    between = [logs[s : s + (epochs - 1) * per_epoch].reshape(epochs - 1, per_epoch)[skip:] for s in apart]
    at = np.arange(per_epoch, dtype=np.float64)
    if per_epoch > 400:  # block means keep the shape and bound the cost
        keep = np.linspace(0, per_epoch, 401).astype(np.int64)
        table, *between = (np.add.reduceat(t, keep[:-1], axis=1) / np.diff(keep) for t in (table, *between))
        at = np.arange(table.shape[1], dtype=np.float64)
    ordered, *others = ([ranks(row - theil_sen(row, at).value * at) for row in t] for t in (table, *between))
    pairs = [_correlation(a, b) for a, b in pairwise(ordered)]
    anyway = min(float(np.mean([_correlation(a, b) for a, b in zip(ordered, other, strict=False)])) for other in others)
    m = float(np.mean(pairs)) - max(0.0, anyway)
    return Profile(m, m * math.sqrt((table.shape[1] - 1) * len(pairs)), len(pairs))


def _correlation(a: Floats, b: Floats) -> float:
    a, b = a - a.mean(), b - b.mean()
    power = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / power if power > 0 else 0.0


def boundary_jump(loss: ArrayLike, per_epoch: int, skip: int = 1) -> Boundary:
    """Mean log-loss of the fifth of an epoch after minus before each boundary, against all other phases (CATALOGUE 2.8)."""
    values = as_floats(loss)
    width = max(3, per_epoch // 5)
    epochs = len(values) // per_epoch if per_epoch > 0 else 0
    if epochs < 3 + skip or per_epoch < 3 * width:
        return Boundary(0.0, 0.0, 0)
    total = np.concatenate([[0.0], np.cumsum(_logs(values))])

    def jump(at: int) -> float:
        return float(total[at + width] - 2 * total[at] + total[at - width]) / width

    real = [jump(k * per_epoch) for k in range(1 + skip, epochs)]
    null = [
        jump(k * per_epoch + phase)
        for k in range(1 + skip, epochs - 1)
        for phase in range(width, per_epoch - width + 1, max(1, width // 2))
    ]
    spread = float(np.std(null)) if null else 0.0
    if not real or spread <= 0:
        return Boundary(float(np.mean(real)) if real else 0.0, 0.0, len(real))
    gap = float(np.mean(real)) - float(np.mean(null))
    return Boundary(gap, gap / (spread / math.sqrt(len(real))), len(real))


def log_form(series: ArrayLike, per_epoch: int | None = None) -> str:
    """What a logged loss is: "running-mean" (restarted each epoch), "ema" (or some long average) or "raw" (CATALOGUE 2.10)."""
    values = as_floats(series)
    if per_epoch and per_epoch >= 20 and len(values) >= 2 * per_epoch and _settles(values, per_epoch) <= -0.5:
        return "running-mean"
    if len(values) >= 100:
        flat = values - running_median(values, 41)
        if autocorrelation(flat) > 0.5:
            return "ema"
    return "raw"


def _settles(values: Floats, per_epoch: int) -> float:
    """Slope of log |Δ| on log(step in epoch): about −1 for a running mean, 0 for raw values."""
    epochs = len(values) // per_epoch
    table = values[: epochs * per_epoch].reshape(epochs, per_epoch)
    moved = np.abs(np.diff(table, axis=1))
    typical = np.median(moved, axis=0)
    at = np.log(np.arange(2, per_epoch + 1, dtype=np.float64))
    keep = typical > 0
    if keep.sum() < 10:
        return 0.0
    at, typical = at[keep], typical[keep]
    if len(at) > 400:
        thin = np.unique(np.geomspace(1, len(at), 400).astype(np.int64)) - 1
        at, typical = at[thin], typical[thin]
    return theil_sen(np.log(typical), at).value


def undo_running_mean(series: ArrayLike, per_epoch: int) -> Floats:
    """The raw values behind a mean that restarts each epoch: L_i = i·m_i − (i−1)·m_{i−1}.

    >>> undo_running_mean([1.0, 1.5, 2.0], 3).tolist()
    [1.0, 2.0, 3.0]
    """
    values = as_floats(series)
    out = np.empty(len(values))
    for start in range(0, len(values), per_epoch):
        part = values[start : start + per_epoch]
        out[start : start + len(part)] = np.diff(np.concatenate([[0.0], part * np.arange(1, len(part) + 1)]))
    return out
