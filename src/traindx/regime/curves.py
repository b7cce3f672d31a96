"""What a curve did: how far it came, whether it stands still, where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from traindx import stats
from traindx.run import Floats, Run, Series
from traindx.stats import Direction, Trend


@dataclass(frozen=True)
class Progress:
    """How far a curve came, in its own units and in units of its noise."""

    points: int
    first: float  # level at the start
    now: float  # level at the end
    best: float  # lowest smoothed level
    best_index: int
    sigma: float  # noise of one record
    trend: Trend  # over the whole curve, judged in units of its noise

    @property
    def drop(self) -> float:
        return self.first - self.now

    @property
    def gain(self) -> float:
        """The drop in units of noise; infinite for a drop without noise."""
        if self.sigma > 0:
            return self.drop / self.sigma
        return math.copysign(math.inf, self.drop) if self.drop else 0.0

    @property
    def relative(self) -> float:
        """The drop as a share of the first level."""
        return self.drop / abs(self.first) if self.first else 0.0

    @property
    def stands(self) -> bool:
        """Whether it never left its first level: no gain beyond its noise, and no trend."""
        return abs(self.gain) < 2 and self.trend.direction not in (Direction.FALLING, Direction.RISING)

    def below(self, level: float, part: float = 0.05) -> bool:
        """Whether the end is surely lower than a level, by that part of it and three standard errors."""
        counted = max(1.0, self.points / 10)  # a fifth of the records, of which one in two counts
        return self.now < level - part * abs(level) - 3 * 1.2533 * self.sigma / math.sqrt(counted)


@dataclass(frozen=True)
class Plateau:
    """The stretch at the end on which a curve stands still."""

    start: int  # index of its first record
    level: float
    se: float  # standard error of the level
    trend: Trend
    share: float  # of all records


def level_of(values: Floats, records: int) -> float:
    return float(np.median(values[:records] if records > 0 else values[records:]))


def noise_of(values: Floats) -> float:
    """Deviation of single records around the curve: from second differences and from a running median, the larger."""
    if len(values) < 3:
        return 0.0
    quick = stats.noise_sigma(values)
    width = min(51, len(values) // 8)  # narrow next to the shape of the curve itself
    slow = stats.mad(values - stats.running_median(values, width)) if width >= 5 else 0.0
    return max(quick if math.isfinite(quick) else 0.0, slow)


def ends(points: int) -> int:
    """How many records make a fair level at either end: a thirtieth, at most 10, at least 1 (curves fall fast at first)."""
    return max(1, min(10, points // 30))


def begins_anew(values: Floats, at: int) -> bool:
    """Whether a curve leaps from one record to the next, at index `at`, and falls from there on step by step: as where a log
    continues with another task, stage or fold."""
    low, leap = float(np.median(values[max(0, at - 5) : at])), float(values[at] - values[at - 1])
    again = np.flatnonzero(np.diff(values[at:]) > 0.5 * leap)  # the next one
    after = values[at : at + int(again[0]) + 1] if len(again) else values[at:]
    if leap <= 0 or len(after) < 20 or float(np.min(np.diff(after))) < -0.5 * leap:
        return False
    parts = [float(np.median(part)) for part in np.array_split(after, 10)]
    return leap > 0.7 * (max(parts) - low) and parts[0] == max(parts) and parts[1] > parts[2] > min(parts[5:])


def progress(series: Series) -> Progress | None:
    """How far a curve came; None below three records."""
    y = series.values
    n = len(y)
    if n < 3:
        return None
    width = max(1, min(200, n // 10))
    smooth = stats.running_median(y, 2 * (width // 2) + 1)
    best = int(np.argmin(smooth))
    tail = max(ends(n), min(50, n // 10))
    whole = stats.trend_verdict(y, n, scale=stats.noise_scale(y) or None, grow=False)
    return Progress(n, level_of(y, ends(n)), level_of(y, -tail), float(smooth[best]), best, noise_of(y), whole)


def plateau(
    series: Series, *, eps: float = 0.01, least_share: float = 0.15, least: int = 8, scale: float = 0.0
) -> Plateau | None:
    """The longest stretch at the end that is flat to within ε of the drop before it; None when the curve still moves.

    `scale` is a yard-stick for curves that hardly dropped: flat is then ε of the larger of the two.
    """
    y = series.values
    n = len(y)
    found: Plateau | None = None
    drop = float(np.max(_smooth(y)[: max(1, n // 2)]) - np.median(y[-max(least, n // 10) :])) if n else 0.0
    drop = max(drop, scale)
    for share in (0.15, 0.25, 0.35, 0.5, 0.65, 0.8):
        size = int(share * n)
        if share < least_share or size < least:
            continue
        trend = stats.trend_verdict(y, size, scale=drop if drop > 0 else None, eps=eps, grow=False)
        if trend.direction is not Direction.FLAT:
            continue
        part = y[-size:]
        rho = max(0.0, stats.autocorrelation(part - np.median(part)))
        se = 1.2533 * stats.mad(part) / math.sqrt(size) * math.sqrt((1 + rho) / max(1 - rho, 0.03))  # of a median
        found = Plateau(_since(y, n - size, trend.level, max(eps * abs(drop), 2 * se)), trend.level, se, trend, size / n)
    return found


def standstill(series: Series, *, eps: float, least: int = 8, scale: float = 0.0) -> Plateau | None:
    """Where a curve stands still: from its first record on, or after a drop; None while it moves."""
    done = progress(series)
    if done is not None and done.stands:
        se = 1.2533 * stats.mad(series.values) / math.sqrt(len(series))
        return Plateau(0, float(np.median(series.values)), se, done.trend, 1.0)
    return plateau(series, eps=eps, least=least, scale=scale)


def settled(series: Series, share: float) -> Series:
    """The part after this share of the drop: on a steep slope a running median hides the noise."""
    if not len(series):
        return series
    smooth = stats.running_median(series.values, 51)
    goal = smooth[0] - share * (smooth[0] - float(np.min(smooth)))
    return series.where(np.arange(len(smooth)) >= int(np.argmax(smooth <= goal)))


def falls(values: Floats) -> bool:
    """Whether the whole of it has a trend downwards, beyond doubt."""
    return stats.trend_verdict(values, len(values), grow=False).direction is Direction.FALLING


def _smooth(y: Floats) -> Floats:
    return stats.running_median(y, 5) if len(y) >= 5 else y


def _since(y: Floats, start: int, level: float, reach: float) -> int:
    """Walk back from the proven stretch while block medians still sit at its level."""
    step = max(1, len(y) // 50)
    at = start
    while at - step >= 0 and abs(float(np.median(y[at - step : at])) - level) <= reach:
        at -= step
    return at


def sampling_noise(run: Run, series: Series) -> Floats:
    """The variance that drawing the batch gives the loss at each record, s²/B; NaN where the samples were not looked at."""
    spread, size = run.series("loss/sample_var").finite(), run.series("batch/size").finite()
    out = np.full(len(series), np.nan)
    if len(spread) and len(size):
        place = np.searchsorted(series.steps, spread.steps)
        inside = (place < len(series)) & (np.append(series.steps, -1)[np.minimum(place, len(series))] == spread.steps)
        batch = size.at(spread.steps[inside])
        out[place[inside]] = spread.values[inside] / np.maximum(np.where(np.isfinite(batch), batch, size.values[0]), 1.0)
    return out


def rounding(values: Floats) -> float:
    """The grid a series was rounded to; 0 when it looks continuous."""
    distinct = np.unique(values)
    if len(values) < 8 or len(distinct) > 0.8 * len(values) or len(distinct) < 2:
        return 0.0
    return float(np.min(np.diff(distinct)))
