"""The loss is still falling: nothing is wrong, the run only needs more time.

## What it sees

A falling trend at the end of the curve (robust, α = 0.02) and, from 200 records on, a forecast. It is a power law or an
exponential, fitted to log-spaced block means. It is kept only if a fit on the first 70 % predicts the last 10 %. It
says where the loss will be at the end of the plan (or after half as many steps again) and how much that gains. A curve
whose fit fails the back-test gets no number. A loss that crawls is a warning. The run had its time and learned at most a
quarter of what can be learned. The loss still falls about as fast as at first.

## Why it matters

The usual question about a slow run is whether to wait. The forecast answers it with an interval.

## What else looks like this

- LOSS003: flat. An equivalence test decides.
- OPTM001: falling, but only because every step is tiny; the update ratio shows it.
- A learning-rate decay still to come adds a drop that no fit can see: the forecast holds for the rate as it is.

## What to do

Wait. If the gain over the next half of the run is more than 5 % of everything gained so far, the budget is too short: extend
it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import course, regime, stats
from traindx.finding import Evidence, Muted, Severity, Unsure
from traindx.regime.curves import ends, level_of
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats import Direction, Forecast


@rule(
    "LOSS004",
    needs={"loss/train | loss/val": 30},
    says={
        "": "the {what} still falls: {now:.4g} now, {forecast:.4g} ({lo:.4g} to {hi:.4g}) expected at step {at_step}",
        "extend": "the {what} still falls: {now:.4g} now, {forecast:.4g} ({lo:.4g} to {hi:.4g}) expected at step "
        "{at_step}; stopping now would give up {share:.0%} of the progress so far",
        "unfitted": "the {what} still falls ({now:.4g} now); no forecast: {reason}",
        "crawls": "the {what} falls slowly: it is {now:.4g} after {records} records, and halving it would take {times:.1f} "
        "times as long again",
    },
    fix={
        "": "Let it run.",
        "extend": "Train for half as many steps again; the curve is not flattening yet.",
        "unfitted": "Let it run, and look again later.",
        "crawls": "Raise the learning rate; `traindx trial lr-range train.py` finds one.",
    },
    severity=Severity.INFO,
    unless=("rl", "adversarial"),
)
def still_converging(
    run: Run,
    *,
    worth: float = 0.01,  # a gain below this share of the drop is not worth a word
    short: float = 0.05,  # CATALOGUE LOSS004: budget too short
) -> Iterator[Evidence]:
    if regime.in_warmup(run):
        raise Muted("the learning rate is still rising")
    name = regime.TRAIN if len(regime.curve(run)) >= 30 else regime.VAL
    series = regime.curve(run, name)
    if len(series) < 30:
        raise Unsure("too few finite records", needs_steps=30 - len(series))
    trend = stats.trend_verdict(series.values)
    if trend.direction is Direction.UNSURE:
        needs = int(min(trend.needs * regime.interval(run, name), 1e12))
        raise Unsure("the noise hides whether it still falls", resolution=trend.resolution, needs_steps=needs)
    if trend.direction is not Direction.FALLING:
        return
    drop = level_of(series.values, ends(len(series))) - trend.level
    what = "training loss" if name == regime.TRAIN else "validation loss"
    if _crawls(run, series):
        times = 0.5 * trend.level / drop
        numbers = {"what": what, "now": trend.level, "records": len(series), "times": times, "drop": drop}
        yield Evidence(numbers, steps=(int(series.steps[0]), int(series.steps[-1])), say="crawls", severity=Severity.WARNING)
        return
    recent = _constant_rate(run, series)
    horizon, at_step = _horizon(run, recent)
    floor = 0.0 if not regime.may_be_negative(run) else None
    ahead = stats.forecast(recent.values, horizon, floor=floor)
    steps = (int(series.steps[-trend.window]), int(series.steps[-1]))
    if ahead.refused:
        yield Evidence({"what": what, "now": ahead.now, "reason": ahead.refused, "drop": drop}, steps=steps, say="unfitted")
    elif drop > 0 and ahead.gain > worth * drop:
        yield _evidence(ahead, what, at_step, drop, steps, short)


def _crawls(run: Run, series: Series, little: float = 0.25) -> bool:
    """Whether a run that had its time learned little, and still falls as fast as at first: every step is too small."""
    found = course.learned(run)
    if (
        not (found.yes or found.state is course.State.NOT_LEARNING)
        or found.high > little
        or found.ended.may_go_on
        or regime.may_be_negative(run)
    ):
        return False
    third = len(series) // 3
    a, b, c = (float(np.median(part)) for part in np.split(series.values[: 3 * third], 3))
    return a - b > 0 and b - c > 0.6 * (a - b)


def _evidence(ahead: Forecast, what: str, at_step: int, drop: float, steps: tuple[int, int], short: float) -> Evidence:
    numbers = {
        "what": what,
        "now": ahead.now,
        "forecast": ahead.value,
        "lo": ahead.lo,
        "hi": ahead.hi,
        "at_step": at_step,
        "gain": ahead.gain,
        "drop": drop,
        "share": ahead.gain / drop,
        "floor": ahead.floor,
        "family": ahead.family,
    }
    return Evidence(numbers, steps=steps, say="extend" if ahead.gain > short * drop else "")


def _horizon(run: Run, series: Series) -> tuple[float, int]:
    """How far to look, in records from the first and as a step: to the end of the plan, else half as far again."""
    first, last = int(series.steps[0]), int(series.steps[-1])
    plan = regime.planned_steps(run)
    target = plan if plan is not None and plan > last * 1.02 else last + (last - first) // 2
    per_record = (last - first) / max(1, len(series) - 1)
    return (target - first) / max(per_record, 1e-9) + 1, int(target)


def _constant_rate(run: Run, series: Series) -> Series:
    """From the last jump of the learning rate on, where enough records follow it: one law does not fit two rates."""
    jumps = [j.step for j in regime.lr_jumps(run)]
    later = series.between(lo=jumps[-1]) if jumps else series
    return series if len(later) < 200 else later
