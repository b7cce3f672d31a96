"""Progress stopped after a good start.

## What it sees

The longest stretch at the end of the curve, at least 15 % of the records, that is flat. An equivalence test keeps its
drift within 1 % of everything gained before, and the forecast promises no further gain. A loss that has come down to
its known floor, or to almost nothing, is finished and not stuck. It is a remark. It becomes a warning when more than
30 % of the planned steps remain at a learning rate that has not decayed, or when your target is not reached. Where
the decay is over, or most of what a model that ignores its input would lose has been gained, it is called the normal
end of a run.

## Why it matters

More steps will not help unless something changes.

## What else looks like this

- LOSS004: a power law looks flat on a linear axis and still falls; the forecast shows it.
- OPTM003: the schedule has taken the learning rate away.
- OPTM005: the noise floor of the learning rate; the curve falls as soon as the rate is lowered (`traindx trial
  anneal` shows it).
- Coarse rounding: values printed with two digits look flat. Then this rule says unsure.
- The normal end of a finished run.

## What to do

Run the anneal fork (1–3 % of the budget). If training and validation both drop, start the decay. If only training
drops, stop and keep the best. If neither moves, the model or the data allow nothing better."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Muted, Severity, Unsure
from traindx.regime.curves import Plateau, noise_of, plateau, progress, rounding
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats import Direction


@rule(
    "LOSS003",
    needs={"loss/train | loss/val": 12},
    says={
        "": "the {what} is flat at {level:.4g} since step {first} ({share:.0%} of the run) after a drop of {drop:.3g}",
        "nearly": "the {what} has almost stopped falling: it is at {level:.4g}, and over the last third it gained at most "
        "{resolution:.0%} of its drop of {drop:.3g} (noise hides more)",
        "val": "the validation loss is flat at {level:.4g} since step {first} ({share:.0%} of the run) while training "
        "keeps falling",
        "end": "the {what} has levelled off at {level:.4g} after a drop of {drop:.3g}, {why}: the normal end of a run",
    },
    fix={
        "": "Run `traindx trial anneal train.py`: it decays the learning rate for 1–3 % of the steps and shows whether the "
        "loss can still fall.",
        "val": "Keep the best checkpoint. To improve validation, use more data or stronger regularisation.",
        "end": "No action needed; `traindx trial anneal train.py` shows whether a lower learning rate would gain more.",
    },
    severity=Severity.INFO,
    unless=("rl", "adversarial"),
)
def plateau_after_drop(
    run: Run,
    *,
    eps: float = 0.01,  # CATALOGUE 2.3: share of the drop over the window
    coarse: float = 0.03,  # the same below 24 records, then only as a hint
    hardly: float = 0.12,  # share of the drop over the last third that noise may hide in a hint
    left: float = 0.3,  # share of the planned steps that makes a plateau worth a warning
    annealed: float = 0.05,  # share of the peak learning rate at which a decay is over
    most: float = 0.5,  # of the loss of a model that ignores its input: below, more was gained than is left
    far: float = 0.2,  # of the first loss, where that model's loss is unknown: as LOSS009
) -> Iterator[Evidence]:
    if regime.in_warmup(run):
        raise Muted("the learning rate is still rising")
    train, val = regime.curve(run), regime.curve(run, regime.VAL)
    doubts: list[Unsure] = []
    for name, series in ((regime.TRAIN, train), (regime.VAL, val)):
        try:
            found = _stands(run, series, eps, coarse, hardly)
        except Unsure as doubt:
            doubts.append(doubt)
            continue
        if found is None:
            continue
        say = "val" if name == regime.VAL and len(train) >= 12 and _falls(train) else ""
        what = "training loss" if name == regime.TRAIN else "validation loss"
        why = _why_ended(run, train if len(train) else series, found.level, annealed, most, far)
        yield _evidence(run, series, found, say, what, left, why)
        return
    if doubts:
        raise doubts[0]


def _stands(run: Run, series: Series, eps: float, coarse: float, hardly: float) -> Plateau | None:
    done = progress(series)
    if done is None or len(series) < 12:
        return None
    gained = _top(series) - done.now
    if gained <= 0 or gained < 4 * done.sigma or (gained < 0.03 * abs(done.first) and gained < 10 * done.sigma):
        return None  # nothing was gained: LOSS002 looks at that
    if not regime.may_be_negative(run) and done.now < 0.02 * gained:
        return None  # down to almost nothing: finished
    found = plateau(series, eps=eps if len(series) >= 24 else coarse)
    if found is None:
        near = _nearly(series, gained, hardly)
        if near is not None:
            return near
        trend = stats.trend_verdict(series.values, max(8, int(0.15 * len(series))), scale=gained, eps=eps)
        if trend.direction is Direction.UNSURE:
            raise Unsure(
                "the noise hides whether it still falls", resolution=trend.resolution, needs_steps=_in_steps(run, trend.needs)
            )
        return None
    grid = rounding(series.values[found.start :])
    if grid > eps * gained:
        raise Unsure(f"values are rounded to {grid:g}, too coarse to tell flat from slow", resolution=grid / gained)
    return None if _falls(series) or _promising(series, gained, found) else found


def _top(series: Series) -> float:
    """The level the curve came down from: the highest of its first half."""
    return float(np.max(stats.running_median(series.values, 5)[: max(1, len(series) // 2)]))


def _nearly(series: Series, gained: float, hardly: float) -> Plateau | None:
    """Not proven flat, but what noise may hide is small: worth a hint."""
    size = int(0.35 * len(series))
    if len(series) < 30:
        return None
    third = stats.trend_verdict(series.values, size, scale=gained, grow=False)
    half = stats.trend_verdict(series.values, len(series) // 2, scale=gained, grow=False)
    if (
        third.direction is not Direction.UNSURE
        or third.resolution > hardly
        or max(abs(third.change), abs(half.change)) > hardly / 2
    ):
        return None
    return Plateau(len(series) - size, third.level, math.nan, third, 0.35)


def _in_steps(run: Run, records: int) -> int:
    return int(min(records * regime.interval(run), 1e12))


def _promising(series: Series, gained: float, found: Plateau) -> bool:
    """The fitted curve still falls by more than 1 % of the drop over the next half of the run, and that beyond doubt."""
    ahead = stats.forecast(series.values, 1.5 * len(series))
    return not ahead.refused and found.level - ahead.hi > 0.01 * gained


def _falls(series: Series) -> bool:
    return stats.trend_verdict(series.values).direction is Direction.FALLING


def _why_ended(run: Run, train: Series, level: float, annealed: float, most: float, far: float) -> str:
    """What makes a plateau the normal end of a run; empty when nothing does."""
    rate = regime.lr(run)
    if len(rate) >= 20 and rate.last <= annealed * regime.peak_lr(run):
        return f"with the learning rate down to {rate.last / regime.peak_lr(run):.1%} of its peak"
    if regime.may_be_negative(run) or level < 0:
        return ""
    known = regime.floors(run)
    lowest = known.get("smoothing", 0.0)
    ignorant = [known[n] for n in ("uniform", "prior", "undecided", "target-variance") if n in known]
    reference, enough = (min(ignorant), most) if ignorant else (_top(train), far)
    share = (level - lowest) / (reference - lowest) if reference > lowest else math.inf
    if share > enough:
        return ""
    much = f"{share:.0%}" if share >= 0.005 else "less than 1%"
    return f"{much} of {'what a model that ignores its input loses' if ignorant else 'where it began'}"


def _evidence(run: Run, series: Series, found: Plateau, say: str, what: str, left: float, why: str) -> Evidence:
    first = int(series.steps[found.start])
    last = int(series.steps[-1])
    span = max(1, last - int(series.steps[0]))
    numbers = {
        "what": what,
        "level": found.level,
        "drop": _top(series) - found.level,
        "share": (last - first) / span,
        "resolution": found.trend.resolution,
        "noise": noise_of(series.values[found.start :]),
    }
    early = len(series) < 24 or math.isnan(found.se)
    say = "nearly" if math.isnan(found.se) and not say else say
    worth = _much_left(run, last, left) or _target_missed(run, found.level)
    if why and not worth:
        say, numbers["why"] = "end", why
    return Evidence(
        numbers,
        steps=(first, last),
        say=say,
        severity=Severity.WARNING if worth and not early else None,
        confidence=Confidence.SUGGESTIVE if early else None,
    )


def _much_left(run: Run, last: int, left: float) -> bool:
    plan = regime.planned_steps(run)
    rate = regime.lr(run)
    decayed = len(rate) > 0 and rate.last < 0.3 * regime.peak_lr(run)
    return plan is not None and last < (1 - left) * plan and not decayed


def _target_missed(run: Run, level: float) -> bool:
    target = run.fact("budget.target")
    if not isinstance(target, dict) or target.get("signal") not in (regime.TRAIN, regime.VAL):
        return False
    value = target.get("value")
    return isinstance(value, int | float) and level > value
