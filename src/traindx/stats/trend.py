"""Is a series flat, falling or rising, or can one not tell? Slopes with honest intervals; change points."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from traindx.run import Floats
from traindx.stats.robust import as_floats, autocorrelation, block_edges, block_means, mad, median, noise_sigma, pairs

MOST_POINTS = 2000  # of a slope of all pairs


class Direction(enum.StrEnum):
    """The four answers of a trend test; "not significant" is `UNSURE`, never `FLAT`."""

    FLAT = "flat"
    FALLING = "falling"
    RISING = "rising"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Slope:
    """A slope per unit of x with its interval."""

    value: float
    lo: float
    hi: float
    points: int

    @property
    def half_width(self) -> float:
        return max(self.hi - self.value, self.value - self.lo)


@dataclass(frozen=True)
class Trend:
    """The verdict on a window. `change` is the drift over the window in units of `scale` (the drop achieved so far)."""

    direction: Direction
    change: float
    lo: float
    hi: float
    scale: float
    resolution: float  # the smallest change over the window it could have told from none
    window: int  # points looked at
    needs: int  # more points until a change of ε would be resolved; 0 when decided
    level: float  # median of the window


def theil_sen(y: ArrayLike, x: ArrayLike | None = None, alpha: float = 0.05) -> Slope:
    """Median of pairwise slopes with Sen's interval; an infinite interval below four points.

    >>> theil_sen([0.0, 1.0, 2.0, 3.0, 40.0]).value
    1.0
    """
    values = as_floats(y)
    at = np.arange(len(values), dtype=np.float64) if x is None else as_floats(x)
    if len(values) > MOST_POINTS:  # as many pairs as their square: evenly chosen ones tell the same
        chosen = np.linspace(0, len(values) - 1, MOST_POINTS).round().astype(np.intp)
        values, at = values[chosen], at[chosen]
    i, j = pairs(len(values))
    apart = at[j] > at[i]
    slopes = np.sort((values[j] - values[i])[apart] / (at[j] - at[i])[apart])
    n, count = len(values), len(slopes)
    if count == 0:
        return Slope(0.0, -math.inf, math.inf, n)
    middle = median(slopes)
    if n < 4:
        return Slope(middle, -math.inf, math.inf, n)
    reach = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(round((count - reach) / 2) - 1, 0)
    high = min(round((count + reach) / 2), count - 1)
    return Slope(middle, float(slopes[low]), float(slopes[high]), n)


def block_theil(y: ArrayLike, k: int = 24, alpha: float = 0.05, x: ArrayLike | None = None) -> Slope:
    """Slope per point (or per unit of `x`) of block means, its interval widened for autocorrelated blocks (CATALOGUE 2.2)."""
    values = as_floats(y)
    centres, means = block_means(values, k)
    if x is not None:
        centres = block_means(x, k)[1]
    raw = theil_sen(means, centres, alpha)
    rho = max(0.0, autocorrelation(residuals(means, centres, raw.value)))
    widen = math.sqrt((1 + rho) / (1 - rho)) if rho < 0.946 else 6.0  # (1+ρ)/(1−ρ) reaches 36 at .946
    return Slope(raw.value, raw.value - (raw.value - raw.lo) * widen, raw.value + (raw.hi - raw.value) * widen, len(means))


def residuals(y: ArrayLike, x: ArrayLike, slope: float) -> Floats:
    values, at = as_floats(y), as_floats(x)
    return values - slope * at - median(values - slope * at) if len(values) else values


def drop_so_far(y: ArrayLike, window: int) -> float:
    """Median of the first 2 % (at least five points) minus median of the last window."""
    values = as_floats(y)
    head = max(5, len(values) // 50)
    return median(values[:head]) - median(values[-window:])


def noise_scale(y: ArrayLike, k: int = 24) -> float:
    """Deviation of the points around their trend times √k: the yard-stick where a drop has no meaning (CATALOGUE 2.3)."""
    values = as_floats(y)
    spread = noise_sigma(values)
    return spread * math.sqrt(k) if math.isfinite(spread) and spread > 0 else mad(values) * math.sqrt(k)


def trend_verdict(
    y: ArrayLike,
    window: int | None = None,
    *,
    scale: float | None = None,
    eps: float = 0.01,
    claim: float = 0.02,
    flat: float = 0.10,
    k: int = 24,
    grow: bool = True,
) -> Trend:
    """FLAT, FALLING, RISING or UNSURE over the last `window` points (default: a quarter of them).

    FLAT is an equivalence test: the 90 % interval of the drift lies inside ±ε of the scale, by default the drop so far.
    RISING and FALLING are claimed at α = .02. An unsure window is doubled until half of the series is used.
    """
    values = as_floats(y)
    size = len(values) // 4 if window is None else window
    size = int(min(max(size, 2), len(values)))
    while True:
        found = _judge(values, size, scale, eps, claim, flat, k)
        if found.direction is not Direction.UNSURE or not grow or 2 * size > len(values) // 2:
            return found
        size *= 2


def _judge(values: Floats, size: int, scale: float | None, eps: float, claim: float, flat: float, k: int) -> Trend:
    part = values[-size:]
    level = median(part)
    if size < 4:
        return Trend(Direction.UNSURE, math.nan, -math.inf, math.inf, math.nan, math.inf, size, 4 - size, level)
    unit = drop_so_far(values, size) if scale is None else scale
    if not unit > 0:
        unit = noise_scale(part, k)
    unit = max(unit, 1e-12 * abs(level), np.finfo(np.float64).tiny)
    bold, calm = block_theil(part, k, claim), block_theil(part, k, flat)
    change, lo, hi = (v * size / unit for v in (bold.value, bold.lo, bold.hi))
    inside = -eps < calm.lo * size / unit and calm.hi * size / unit < eps
    direction = Direction.FLAT if inside else Direction.FALLING if hi < 0 else Direction.RISING if lo > 0 else Direction.UNSURE
    reach = max(abs(calm.lo), abs(calm.hi)) * size / unit
    needs = 0
    if direction is Direction.UNSURE:
        half = calm.half_width * size / unit
        needs = int(min(size * max((half / eps) ** 2 - 1, 0.5), 1e9)) if math.isfinite(half) else size
    return Trend(direction, change, lo, hi, unit, reach, size, needs, level)


def change_points(y: ArrayLike, penalty: float | None = None, blocks: int = 200, least: int = 5) -> tuple[int, ...]:
    """Indexes where the level of a series shifts: exact least-squares segmentation (PELT) of at most `blocks` block means.

    The penalty per change defaults to 3·ln(n) noise variances, which finds none in pure noise in about 19 of 20 series.
    """
    values = as_floats(y)
    edges = block_edges(len(values), blocks)
    if len(edges) - 1 < 2 * least:
        return ()
    _, means = block_means(values, blocks)
    sigma = noise_sigma(means)
    if not sigma > 0:
        sigma = max(mad(means), 1e-12 * float(np.max(np.abs(means))), np.finfo(np.float64).tiny)
    cost = 3.0 * math.log(len(means)) if penalty is None else penalty
    return tuple(int(edges[c]) for c in _pelt(means / sigma, cost, least))


def _pelt(z: Floats, penalty: float, least: int) -> list[int]:
    total, square = np.concatenate([[0.0], np.cumsum(z)]), np.concatenate([[0.0], np.cumsum(z * z)])
    n = len(z)
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came = np.zeros(n + 1, dtype=np.int64)
    alive = np.array([0], dtype=np.int64)
    for t in range(least, n + 1):
        length = t - alive
        cost = square[t] - square[alive] - (total[t] - total[alive]) ** 2 / length
        score = best[alive] + cost + penalty
        pick = int(np.argmin(score))
        best[t], came[t] = score[pick], alive[pick]
        alive = np.append(alive[best[alive] + cost <= best[t]], t - least + 1)
    out: list[int] = []
    t = n
    while came[t] > 0:
        t = int(came[t])
        out.append(t)
    return out[::-1]


def cusum_shift(y: ArrayLike) -> tuple[int, float]:
    """The likeliest single level shift and its strength: index and max |CUSUM| / (σ·√n) (above 1.36 is 5 % by chance)."""
    values = as_floats(y)
    sigma = noise_sigma(values)
    if len(values) < 8 or not sigma > 0:
        return 0, 0.0
    path = np.cumsum(values - values.mean())[:-1]
    at = int(np.argmax(np.abs(path)))
    return at + 1, float(abs(path[at]) / (sigma * math.sqrt(len(values))))
