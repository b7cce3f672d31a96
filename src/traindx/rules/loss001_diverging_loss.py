"""The loss climbs and does not come back, or stops being a number.

## What it sees

Three things, in this order. *Non-finite*: the training loss ends in NaN or infinity. *Risen*: the level at the end lies above
the best level of the run by more than six deviations of its noise and by more than a tenth of all that was gained, and the
curve is not on its way back. *Excursion*: it came back, but for a while it had lost more than half of what was gained. The
best level is looked for where the learning rate was comparable to today's, so that the climb after a warm restart counts only
when it goes beyond the last cycle.

## Why it matters

From the onset on every step undoes work. Once the weights have been thrown far away the run rarely finds back by itself, and
a checkpoint written after the onset is worse than the one before.

## What else looks like this

- LOSS006: a spike recovers within some hundred steps.
- LOSS008: only the validation loss climbs.
- A warm restart, a cyclic rate, the end of a warm-up: muted after jumps of the learning rate, and compared at equal rates.
- Harder data (curriculum, another source): the loss of an *old* batch under the same weights has not moved. Muted when the
  run is known to follow a curriculum.
- Two players or a policy: their losses are no measure of progress. Only non-finite values count there.
- A loss that is a sum over a growing batch or sequence.

## What to do

Resume from the last checkpoint before the onset with a third (slow rise) or a tenth (blow-up) of the learning rate, clip
gradients at the 95 % quantile of their norms before the onset, and warm up over 1–5 % of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import ends, level_of, noise_of
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "LOSS001",
    needs={"loss/train | loss/val": 1},
    says={
        "nonfinite": "the {what} is {value} from step {first} on ({count} records)",
        "passing": "the {what} was {value} at step {first} and came back",
        "risen": "the {what} rose from {best:.4g} (step {first}) to {now:.4g}, {lost:.0%} of what had been gained",
        "worse": "the {what} rose from {start:.4g} to {now:.4g}: worse than before training",
        "excursion": "the {what} climbed from {best:.4g} to {peak:.4g} between steps {first} and {last}, {lost:.0%} of what "
        "had been gained, and came back to {now:.4g}",
    },
    fix={
        "": "Resume from before step {first} with a tenth of the learning rate; clip gradients at their usual norm.",
        "nonfinite": "Find the first non-finite operation (`traindx run` names it), then resume from before step {first}.",
        "passing": "Look at what was evaluated at step {first}: an empty batch, a division by zero, an overflow.",
        "excursion": "Lower the learning rate by 3 and clip gradients; keep the checkpoint from before step {first}.",
    },
    severity=Severity.CRITICAL,
)
def diverging_loss(
    run: Run,
    *,
    deviations: float = 6.0,  # CATALOGUE LOSS001
    lost: float = 0.1,  # share of the gain: below this a climb is drift, not divergence
    ruin: float = 0.5,  # share of the gain at which going on wastes the run
    least: int = 20,  # records before a finite climb is judged
) -> Iterator[Evidence]:
    broken = list(_nonfinite(run))
    yield from broken
    if any(e.say == "nonfinite" for e in broken) or regime.adversarial(run) or regime.reinforcement(run):
        return
    name = regime.TRAIN if len(run.series(regime.TRAIN)) else regime.VAL
    series = regime.curve(run, name)
    what = _words(name)
    if len(series) < least:
        blown = _blown(series, what)
        if blown is None and len(series) < 5:
            raise Unsure(f"{len(series)} finite records of the {what} are too few", needs_steps=least)
        if blown is not None:
            yield blown
        return
    if regime.curriculum(run):
        return
    found = _climb(run, series, what, deviations, lost, ruin)
    if found is not None:
        yield found


def _words(name: str) -> str:
    return "training loss" if name == regime.TRAIN else "validation loss"


def _nonfinite(run: Run) -> Iterator[Evidence]:
    for name in (regime.TRAIN, regime.VAL):
        series = run.series(name)
        bad = ~np.isfinite(series.values)
        if not bad.any():
            continue
        good = np.flatnonzero(~bad)
        first = int(good[-1]) + 1 if len(good) else 0
        trailing = len(series) - first
        if trailing and (name == regime.TRAIN or not len(good)):
            facts = {"what": _words(name), "value": _spelled(series.values[first]), "count": trailing}
            yield Evidence(
                facts, steps=(int(series.steps[first]), int(series.steps[-1])), say="nonfinite", confidence=Confidence.EXACT
            )
            return
        # a lone NaN between ordinary values may be a gap of the log; an infinity never is
        infinite = np.flatnonzero(np.isinf(series.values))
        if len(infinite):
            at = int(series.steps[infinite[0]])
            facts = {"what": _words(name), "value": _spelled(series.values[infinite[0]]), "count": len(infinite)}
            severity = Severity.WARNING if len(infinite) > 2 else Severity.INFO
            yield Evidence(facts, steps=(at, int(series.steps[infinite[-1]])), say="passing", severity=severity)


def _spelled(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"


def _blown(series: Series, what: str) -> Evidence | None:
    """A short log decides only the plain case: the last records lie ten times above everything the run began with."""
    y = series.values
    if len(y) < 4:
        return None
    start = y[: max(2, len(y) // 3)]
    reach = float(np.max(start) + 10 * max(np.ptp(start), abs(float(np.max(start)))))
    if np.all(y[-2:] > reach):
        onset = int(np.argmax(y > np.max(start)))
        facts = {"what": what, "start": float(y[0]), "now": float(y[-1]), "best": float(np.min(y))}
        return Evidence(facts, steps=(int(series.steps[onset]), int(series.steps[-1])), say="worse")
    return None


def _climb(run: Run, series: Series, what: str, deviations: float, lost: float, ruin: float) -> Evidence | None:
    y, n = series.values, len(series)
    width = max(3, min(200, n // 10))
    smooth = _rolling_median(y, width)  # smooth[i] is the level of records i … i+width-1
    sigma = noise_of(y)
    last = max(3, min(20, n // 10))
    now, start = level_of(y, -last), level_of(y, ends(n))
    best = _best_window(run, series, smooth, width)
    if best is None:
        return None
    low = float(smooth[best])
    gained = max(start - low, 0.0)
    onset = _onset(y, best + width - 1, low, 3 * sigma, width)
    span = (int(series.steps[onset]), int(series.steps[-1]))
    if _still_settling(run, series) or regime.data_changed(run, int(series.steps[best]), span[0] + 1):
        return None
    rise = now - low
    facts = {
        "what": what,
        "best": low,
        "start": start,
        "now": now,
        "noise": sigma,
        "lost": rise / gained if gained > 0 else math.inf,
    }
    after = y[best + width :]
    if (
        rise > deviations * sigma
        and rise > lost * gained
        and len(after) >= min(30, max(5, n // 20))
        and not _returning(after, low, rise)
    ):
        if now > start + 3 * sigma and rise > max(ruin * gained, 3 * deviations * sigma):
            return Evidence(facts, steps=span, say="worse")
        if rise > ruin * gained and gained > deviations * sigma:
            return Evidence(facts, steps=span, say="risen")
        if gained > deviations * sigma:
            return Evidence(facts, steps=span, say="risen", severity=Severity.WARNING)
        return None
    return _excursion(run, series, smooth, width, sigma, gained, facts, ruin, deviations)


def _explained(run: Run, low: int, high: int) -> bool:
    """Whether a climb goes with a higher learning rate or with other data."""
    rate = regime.lr(run)
    then, later = (float(v) for v in rate.at([low, high])) if len(rate) else (math.nan, math.nan)
    return later > 1.3 * then or any(low <= s <= high for s in regime.seams(run)) or regime.data_changed(run, low, high)


def _rolling_median(y: Floats, width: int) -> Floats:
    view = np.lib.stride_tricks.sliding_window_view(y, width)
    stride = max(1, len(view) // 20_000)
    coarse = np.median(view[::stride], axis=1)
    return np.repeat(coarse, stride)[: len(view)] if stride > 1 else coarse


def _best_window(run: Run, series: Series, smooth: Floats, width: int) -> int | None:
    """The lowest level before the end, among windows whose learning rate was comparable to today's where there are such."""
    upto = len(smooth) - width
    if upto < 1:
        return None
    rate = regime.lr(run)
    allowed = np.ones(upto, dtype=bool)
    if len(rate) and rate.last > 0:
        then = rate.at(series.steps[:upto] + 0)
        then = np.where(np.isfinite(then), then, rate.last)
        similar = then >= 0.7 * rate.last
        if similar.sum() >= max(3, width):
            allowed = similar
    candidates = np.where(allowed, smooth[:upto], np.inf)
    return int(np.argmin(candidates))


def _still_settling(run: Run, series: Series) -> bool:
    end = int(series.steps[-1])
    return regime.is_muted(end, regime.muted_after_jumps(run, only_up=True))


def _onset(y: Floats, after: int, low: float, reach: float, width: int) -> int:
    """The first record after the best level from which on the curve never comes back to it."""
    below = np.flatnonzero(stats.running_median(y[after:], min(5, width)) <= low + reach)
    return min(len(y) - 1, after + (int(below[-1]) + 1 if len(below) else 0))


def _returning(after: Floats, low: float, rise: float) -> bool:
    """On its way back: the last third lies well below the peak and falls."""
    third = max(4, len(after) // 3)
    smooth = stats.running_median(after, 5)
    peak = float(np.max(smooth))
    falls = stats.block_theil(after[-third:], alpha=0.05).hi < 0 if len(after) >= 12 else False
    return falls and rise < 0.5 * (peak - low)


def _excursion(
    run: Run,
    series: Series,
    smooth: Floats,
    width: int,
    sigma: float,
    gained: float,
    facts: dict[str, Any],
    ruin: float,
    deviations: float,
) -> Evidence | None:
    """A climb that came back: at some time the smoothed level had lost more than half of what was gained by then."""
    best_so_far = np.minimum.accumulate(smooth)
    lost = smooth - best_so_far
    peak = int(np.argmax(lost))
    before = float(facts["start"]) - float(best_so_far[peak])
    if before <= 0 or before < deviations * sigma or lost[peak] < max(ruin * before, deviations * sigma):
        return None
    began = int(np.flatnonzero(smooth[: peak + 1] <= best_so_far[peak])[-1])
    if _explained(run, int(series.steps[began]), int(series.steps[min(peak + width, len(series) - 1)])):
        return None
    back = np.flatnonzero(smooth[peak:] <= best_so_far[peak] + 0.25 * lost[peak])
    end = min(len(series) - 1, (peak + int(back[0]) if len(back) else len(smooth) - 1) + width // 2)
    facts = {**facts, "best": float(best_so_far[peak]), "peak": float(smooth[peak]), "lost": float(lost[peak] / before)}
    span = (int(series.steps[min(began + width // 2, len(series) - 1)]), int(series.steps[end]))
    return Evidence(facts, steps=span, say="excursion", severity=Severity.WARNING)
