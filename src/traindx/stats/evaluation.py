"""Validation against training: overfitting that is more than noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats, kendall, noise_sigma


@dataclass(frozen=True)
class Overfit:
    """What the evaluations say. `fired` is the evaluation at which the rise was proven, None when it was not."""

    fired: int | None
    best: int  # index of the smoothed minimum
    best_value: float
    rise: float  # smoothed now minus smoothed minimum
    sigma: float  # noise of one evaluation
    train_fell: float  # training loss since the minimum, positive when it fell
    concordance: float  # rank agreement of the evaluations since the minimum with time
    gl: float  # Prechelt's generalisation loss, percent
    pq: float  # GL over training progress of the last 5
    up: int  # successive rises at the end

    @property
    def rise_relative(self) -> float:
        return self.rise / abs(self.best_value) if self.best_value else math.inf if self.rise > 0 else 0.0


def smooth3(y: ArrayLike, width: int = 3) -> Floats:
    """Trailing mean of up to `width` points."""
    values = as_floats(y)
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - width)
    return np.asarray((total[end] - total[start]) / (end - start), dtype=np.float64)


def overfit_na(
    val: ArrayLike,
    train: ArrayLike,
    *,
    z: float = 4.0,
    least_rise: float = 0.01,
    need: int = 3,
    warm: int = 5,
    concordance: float = 0.5,
    negative: bool = False,
) -> Overfit:
    """Noise-aware Prechelt (CATALOGUE 2.6): validation rises beyond its noise since its minimum while training falls.

    `train` is the training loss near each evaluation. Fires at the third evaluation in a row on which the smoothed rise
    exceeds 4σ√(2/3) and 1 % of the minimum (or a tenth of the total drop, if that is less or losses may be negative),
    training fell by more than 2σ, and the evaluations since the minimum agree with time (Kendall > .5).
    """
    v, t = as_floats(val), as_floats(train)
    smooth = smooth3(v)
    row = 0
    fired = None
    for i in range(min(warm + 3, len(v)), len(v)):
        best = 2 + int(np.argmin(smooth[2 : i + 1]))
        least = float(smooth[best])
        gained = float(np.max(v[: i + 1]) - least)
        floor = 0.1 * gained if negative else min(least_rise * abs(least), 0.1 * gained)  # an offset must not hide it
        rise = float(smooth[i] - least)
        holds = rise > floor and i - best >= 3 and _proven(v[: i + 1], t[: i + 1], best, rise, z, concordance)
        row = row + 1 if holds else 0
        if row >= need and fired is None:
            fired = i
    last = _state(v, t)
    return Overfit(fired, *last_fields(last))


def _proven(v: Floats, t: Floats, best: int, rise: float, z: float, concordance: float) -> bool:
    """Whether a rise since the minimum is more than noise, while training fell."""
    noise = noise_sigma(t)
    return (
        rise > z * noise_sigma(v) * math.sqrt(2 / 3)
        and _fell(t, best) > 2 * (noise if math.isfinite(noise) else math.inf)
        and kendall(v[best:]) > concordance
    )


def _fell(t: Floats, best: int) -> float:
    return float(np.median(t[max(0, best - 1) : best + 2]) - np.median(t[-3:]))


def last_fields(o: Overfit) -> tuple[int, float, float, float, float, float, float, float, int]:
    return o.best, o.best_value, o.rise, o.sigma, o.train_fell, o.concordance, o.gl, o.pq, o.up


def _state(v: Floats, t: Floats) -> Overfit:
    n = len(v)
    if n < 3:
        return Overfit(None, max(0, n - 1), float(v[-1]) if n else math.nan, 0.0, math.nan, 0.0, 0.0, 0.0, 0.0, 0)
    s = smooth3(v)
    best = 2 + int(np.argmin(s[2:]))
    sigma = noise_sigma(v)
    gl = prechelt_gl(v)
    return Overfit(
        None,
        best,
        float(s[best]),
        float(s[-1] - s[best]),
        sigma,
        _fell(t, best),
        kendall(v[best:]),
        gl,
        prechelt_pq(v, t),
        rises(v),
    )


def prechelt_gl(val: ArrayLike) -> float:
    """100·(E / E_opt − 1); NaN where losses are not positive.

    >>> round(prechelt_gl([2.0, 1.0, 1.1]), 6)
    10.0
    """
    v = as_floats(val)
    least = float(np.min(v))
    return 100.0 * (float(v[-1]) / least - 1.0) if least > 0 else math.nan


def prechelt_pq(val: ArrayLike, train: ArrayLike, k: int = 5) -> float:
    """GL over P_k = 1000·(mean_k/min_k − 1) of the training loss."""
    t = as_floats(train)[-k:]
    least = float(np.min(t)) if len(t) else 0.0
    gl = prechelt_gl(val)
    if least <= 0 or not math.isfinite(gl):
        return math.nan
    return gl / max(1000.0 * (float(np.mean(t)) / least - 1.0), 1e-9)


def rises(val: ArrayLike) -> int:
    """How many rises in a row the series ends with.

    >>> rises([3.0, 1.0, 2.0, 3.0])
    2
    """
    up = np.diff(as_floats(val)) > 0
    falls = np.flatnonzero(~up)
    return int(len(up) - 1 - falls[-1]) if len(falls) else len(up)
