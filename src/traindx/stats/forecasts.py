"""Where a falling loss will be: a power law, an exponential as its rival, and a back-test that may refuse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats

POWERS = np.geomspace(0.05, 2.0, 28)
STARTS = np.array([0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0])
DECAYS = np.geomspace(0.02, 3.0, 40)  # time constants of the exponential, in lengths of the series


@dataclass(frozen=True)
class Forecast:
    """The loss expected at `at` (in points from the start of the series); `refused` says why there is none."""

    at: float
    value: float
    lo: float
    hi: float
    now: float
    floor: float  # the level the fitted curve tends to
    family: str
    refused: str = ""

    @property
    def gain(self) -> float:
        return self.now - self.value


@dataclass(frozen=True)
class _Blocks:
    at: Floats  # (blocks, points inside)
    mean: Floats
    se: Floats


@dataclass(frozen=True)
class _Fit:
    chi: Floats  # per grid point
    level: Floats
    height: Floats
    value: Floats  # predicted at the target
    family: str


def forecast(y: ArrayLike, target: float, *, floor: float | None = None, least: int = 200, back_test: bool = True) -> Forecast:
    """The loss at point `target`, with an interval, or a refusal (CATALOGUE 2.18).

    L(t) = c + a(t+t0)^−b on about 30 log-spaced block means, all grid points within χ²min + 6·max(1, χ²/dof) kept;
    c + a·exp(−t/τ) takes over when it fits better by more than 10. Fitted on the first 70 % it must meet the last 10 %.
    """
    values = as_floats(y)
    n = len(values)
    now = float(np.median(values[-max(1, n // 20) :])) if n else math.nan
    if n < least:
        return _refusal(target, now, f"it needs {least} records and has {n}")
    if not np.isfinite(values).all():
        return _refusal(target, now, "the series holds non-finite values")
    if back_test:
        early = _fit_and_predict(values[: int(0.7 * n)], n * 0.95, floor)
        tail = values[int(0.9 * n) :]
        slack = 1.3 * float(np.std(tail)) / math.sqrt(len(tail))
        if not early.lo - slack <= float(tail.mean()) <= early.hi + slack:
            return _refusal(target, now, "a fit on the first 70 % of the run does not predict its last 10 %")
    found = _fit_and_predict(values, target, floor)
    return Forecast(target, found.value, found.lo, found.hi, now, found.floor, found.family)


def _refusal(target: float, now: float, why: str) -> Forecast:
    return Forecast(target, math.nan, math.nan, math.nan, now, math.nan, "", why)


def _fit_and_predict(values: Floats, target: float, floor: float | None) -> Forecast:
    blocks = _log_blocks(values)
    ahead = np.array([[float(target)]])
    starts = np.unique(np.concatenate([STARTS, len(values) * np.array([0.01, 0.03, 0.1, 0.3])]))
    power = _power_fit(blocks, ahead, starts[starts <= 0.3 * len(values)], floor)
    rival = _decay_fit(blocks, ahead, DECAYS * len(values), floor)
    best = rival if rival.chi.min() < power.chi.min() - 10 else power
    dof = max(1, len(blocks.at) - 4)
    least = float(best.chi.min())
    inflation = max(1.0, least / dof)
    kept = best.chi <= least + 6.0 * inflation
    pick = int(np.argmin(best.chi))
    slack = 1.3 * math.sqrt(inflation) * float(np.median(blocks.se[-3:]))
    lo, hi = float(best.value[kept].min()) - slack, float(best.value[kept].max()) + slack
    return Forecast(target, float(best.value[pick]), lo, hi, math.nan, float(best.level[pick]), best.family)


def _log_blocks(values: Floats, k: int = 30, burn: float = 0.02, inside: int = 8) -> _Blocks:
    n = len(values)
    edges = np.unique(np.round(np.geomspace(max(5, int(n * burn)) + 1, n + 1, k + 1)).astype(np.int64)) - 1
    size = np.diff(edges)
    part = (np.arange(inside) + 0.5) / inside  # the curve is averaged inside a block, as the data are
    at = edges[:-1, None] + 0.5 + part[None, :] * size[:, None]
    mean = np.array([values[a:b].mean() for a, b in pairwise(edges)])
    spread = np.array([values[a:b].std(ddof=1) if b - a > 3 else np.nan for a, b in pairwise(edges)])
    usual = float(np.nanmedian(spread)) if np.isfinite(spread).any() else float(np.std(values))
    usual = max(usual, 1e-9 * float(np.max(np.abs(values))), 1e-100)  # its square must not underflow
    spread = np.where(np.isfinite(spread) & (spread > 0), spread, usual)
    return _Blocks(at, mean, np.maximum(spread, 0.5 * usual) / np.sqrt(size))


def _power_grid(at: Floats, starts: Floats, powers: Floats) -> Floats:
    return np.concatenate([((at + s)[None] ** -powers[:, None, None]).mean(2) for s in starts])


def _power_fit(blocks: _Blocks, ahead: Floats, starts: Floats, floor: float | None) -> _Fit:
    """The power law on the whole grid, and on a finer one around its best point."""
    grid, beyond = _power_grid(blocks.at, starts, POWERS), _power_grid(ahead, starts, POWERS)
    best = int(np.argmin(_fit(blocks, grid, beyond, floor, "").chi))
    start, power = starts[best // len(POWERS)], POWERS[best % len(POWERS)]
    near = start * np.array([0.6, 0.8, 1.0, 1.25, 1.6]) if start > 0 else np.array([0.0])
    fine = np.geomspace(power / 1.3, power * 1.3, 25)
    grid = np.concatenate([grid, _power_grid(blocks.at, near, fine)])
    beyond = np.concatenate([beyond, _power_grid(ahead, near, fine)])
    return _fit(blocks, grid, beyond, floor, "power law")


def _decay_grid(at: Floats, constants: Floats) -> Floats:
    return np.asarray(np.exp(-at[None] / constants[:, None, None]).mean(2), dtype=np.float64)


def _decay_fit(blocks: _Blocks, ahead: Floats, constants: Floats, floor: float | None) -> _Fit:
    """The exponential on a coarse grid of time constants, then on a fine one around the best."""
    coarse = _fit(blocks, _decay_grid(blocks.at, constants), _decay_grid(ahead, constants), floor, "exponential")
    best = constants[int(np.argmin(coarse.chi))]
    fine = np.geomspace(best / 1.3, best * 1.3, 81)
    return _fit(blocks, _decay_grid(blocks.at, fine), _decay_grid(ahead, fine), floor, "exponential")


def _fit(blocks: _Blocks, basis: Floats, ahead: Floats, floor: float | None, family: str) -> _Fit:
    """Weighted least squares for (c, a) at every grid point at once, with a ≥ 0 and c ≥ floor."""
    w = 1.0 / blocks.se**2
    total, mean_y = w.sum(), float((w * blocks.mean).sum() / w.sum())
    mean_x = (basis * w).sum(1) / total
    dx = basis - mean_x[:, None]
    height = (dx * w * (blocks.mean - mean_y)).sum(1) / np.maximum((dx * dx * w).sum(1), 1e-300)
    height = np.maximum(height, 0.0)
    level = mean_y - height * mean_x
    if floor is not None:
        low = level < floor
        level = np.where(low, floor, level)
        held = np.maximum((w * basis * (blocks.mean - floor)).sum(1) / np.maximum((w * basis * basis).sum(1), 1e-300), 0.0)
        height = np.where(low, held, height)
    rest = (blocks.mean - level[:, None] - height[:, None] * basis) / blocks.se
    return _Fit((rest**2).sum(1), level, height, level + height * ahead[:, 0], family)
