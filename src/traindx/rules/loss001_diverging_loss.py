"""The loss diverges: it climbs and does not come back, or stops being a number.

## What it sees

Three things, in this order. *Non-finite*: the training loss ends in NaN or infinity. *Risen*: the level at the end is
above the best level of the run. The rise exceeds six deviations of its noise and a tenth of the gain. The curve is
not on its way back. *Excursion*: it came back, but for a while it had lost more than half of what was gained. A dozen
means over whole epochs are enough where the second half is above the start. They are also enough where the loss rose
at each of the last four or more, to twice its best. A jump within the first tenth of the run counts too if the
gradient norm jumps with it and neither comes back. The best level is taken where the learning rate was comparable to
the current one. The climb after a warm restart counts only when it exceeds the last cycle.
A loss that lies below zero by thousands of times what it began with, and still falls, has no lower end (*bottomless*).

## Why it matters

From the onset on, every step undoes progress. Once the weights have jumped far away the run rarely recovers, and a
checkpoint written after the onset is worse than the one before.

## What else looks like this

- LOSS006: a spike recovers within some hundred steps.
- LOSS008: only the validation loss climbs.
- A warm restart, a cyclic rate, the end of a warm-up: muted after jumps of the learning rate, and compared at equal rates.
- Harder data (curriculum, another source): the loss of an *old* batch under the same weights has not moved. Muted when the
  run is known to follow a curriculum, a remark when training began to draw from another data set before.
- Another task, stage or fold in the same log: the loss jumps from one record to the next and then falls as at the
  start of a training. A remark, when at least half is regained.
- Two players or a policy: their losses are no measure of progress. Only non-finite values count there.
- A loss that is a sum over a growing batch or sequence.

## What to do

Resume from the last checkpoint before the onset with a third (slow rise) or a tenth (blow-up) of the learning rate.
Clip gradients at the 95 % quantile of their norms before the onset, and warm up over 1–5 % of the steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import begins_anew, ends, level_of, noise_of
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "LOSS001",
    needs={"loss/train | loss/val": 1},
    says={
        "nonfinite": "the {what} is {value} from step {first} on ({count} records)",
        "passing": "the {what} was {value} at step {first} and came back",
        "risen": "the {what} rose from {best:.4g} (step {first}) to {now:.4g}: {lost:.0%} of its progress is lost",
        "worse": "the {what} rose from {start:.4g} to {now:.4g}: worse than before training",
        "bottomless": "the {what} fell from {start:.4g} to {now:.4g} and has no lower end",
        "excursion": "the {what} climbed from {best:.4g} to {peak:.4g} after step {first}; it ends at {now:.4g}",
    },
    fix={
        "": "Resume from before the rise with a tenth of the learning rate; clip gradients at their usual norm.",
        "nonfinite": "Find the first non-finite operation (`traindx run` names it), then resume from before it.",
        "passing": "Look at what was evaluated at step {first}: an empty batch, a division by zero, an overflow.",
        "bottomless": "Find the term that can be made as small as one likes: one that is subtracted, the log of something that "
        "may vanish, a likelihood whose variance may. Bound it.",
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
        blown = _blown(series, what) or _outgrown(run, series, what, deviations) or _climbing(run, series, what, lost)
        if blown is None and len(series) < 5:
            raise Unsure(f"{len(series)} finite records of the {what} are too few", needs_steps=least)
        if blown is not None:
            yield blown
        return
    if regime.curriculum(run):
        return
    found = _climb(run, series, what, deviations, lost, ruin) or _leap(run, series, what) or _bottomless(series, what)
    if found is not None:
        yield replace(found, severity=Severity.INFO) if _other_data(run, found) else found


def _other_data(run: Run, climb: Evidence) -> bool:
    """Whether other data joined before the climb was over: their loss has another level, if not beyond that of the start."""
    end = climb.steps[1] if climb.steps else math.inf
    return climb.say != "worse" and any(step <= end for step in regime.joined_at(run))


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


def _outgrown(run: Run, series: Series, what: str, deviations: float, least: int = 10) -> Evidence | None:
    """A short log of means over whole epochs: its second half lies above where training began, and keeps rising or stays."""
    y = series.values
    if len(y) < least or not regime.logged_by_epoch(run) or len(regime.lr_jumps(run)):
        return None
    start, half = float(np.max(y[:2])), y[len(y) // 2 :]
    if float(np.min(half)) <= start + deviations / 2 * noise_of(y) or float(np.min(y)) >= float(y[0]):
        return None
    low = int(np.argmin(y))
    facts = {"what": what, "start": float(y[0]), "now": float(np.median(half)), "best": float(y[low])}
    return Evidence(facts, steps=(int(series.steps[low]), int(series.steps[-1])), say="worse")


def _climbing(run: Run, series: Series, what: str, lost: float, least: int = 10) -> Evidence | None:
    """A short log of means over whole epochs: since its best it rises at every record, to a multiple of it."""
    y = series.values
    low = int(np.argmin(y))
    start, best, now = float(np.max(y[:2])), float(y[low]), float(y[-1])
    if len(y) < least or len(y) - low < 5 or not regime.logged_by_epoch(run) or len(regime.lr_jumps(run)):
        return None
    if best <= 0 or now < 2 * best or now - best <= lost * (start - best) or np.any(np.diff(y[low:]) <= 0):
        return None
    facts = {"what": what, "start": start, "now": now, "best": best, "lost": (now - best) / (start - best)}
    return Evidence(facts, steps=(int(series.steps[low]), int(series.steps[-1])), say="risen", severity=Severity.WARNING)


def _bottomless(series: Series, what: str, times: float = 1e4) -> Evidence | None:
    """Below zero by thousands of times the first records, and in its last quarter clearly further than before."""
    y, quarter = series.values, max(3, len(series) // 4)
    before, now = float(np.median(y[-2 * quarter : -quarter])), float(np.median(y[-quarter:]))
    if now > -times * max(float(np.max(np.abs(y[:3]))), 1e-3) or now > 1.2 * before:
        return None
    facts = {"what": what, "start": float(y[0]), "now": now, "best": float(np.min(y))}
    onset = int(np.argmax(y < 0))
    return Evidence(facts, steps=(int(series.steps[onset]), int(series.steps[-1])), say="bottomless")


@dataclass(frozen=True)
class _Course:
    """A curve with its smoothed levels: levels[i] is the median of records i … i+width-1."""

    series: Series
    width: int
    levels: Floats
    sigma: float
    start: float
    now: float

    def step(self, record: int) -> int:
        return int(self.series.steps[min(record, len(self.series) - 1)])


def _leap(run: Run, series: Series, what: str) -> Evidence | None:
    """Within the first tenth the loss leaps, together with the gradient norm, and never returns to what it was before.

    A loss that grows by intent (a queue that fills, a term that is annealed in) does not do both at once.
    """
    y, norm = series.values, run.series("grad_norm").finite()
    head = len(y) // 10
    if head < 3 or len(norm) < 10:
        return None
    sigma, gap = noise_of(y[head:]), int(np.median(np.diff(series.steps)))
    usual = float(np.median(norm.values))
    # Largest leap first; after it, records that the blow-up itself had already raised may hide an earlier one.
    for at in sorted(range(1, head + 1), key=lambda i: (y[i - 1] - y[i], i)):
        before, floor = float(np.max(y[:at])), float(np.quantile(y[at:], 0.02))
        if floor <= before + 2 * sigma or floor - before <= 0.5 * abs(before):
            continue
        burst = norm.between(int(series.steps[at]) - gap, int(series.steps[at]) + 3 * gap).values
        calm = norm.between(hi=int(series.steps[at]) - 1).values
        if len(burst) and float(np.max(burst)) > 5 * min(usual, float(np.median(calm)) if len(calm) else usual):
            facts = {
                "what": what,
                "start": float(np.median(y[:at])),
                "now": float(np.median(y[-head:])),
                "best": float(np.min(y[:at])),
            }
            return Evidence(facts, steps=(int(series.steps[at]), int(series.steps[-1])), say="worse")
    return None


def _course(series: Series) -> _Course:
    y, n = series.values, len(series)
    width = max(3, min(200, n // 10))
    view = np.lib.stride_tricks.sliding_window_view(y, width)
    stride = max(1, len(view) // 20_000)
    levels = np.repeat(np.median(view[::stride], axis=1), stride)[: len(view)]
    now = level_of(y, -max(3, min(20, n // 10)))
    return _Course(series, width, levels, noise_of(y), level_of(y, ends(n)), now)


def _climb(run: Run, series: Series, what: str, deviations: float, lost: float, ruin: float) -> Evidence | None:
    course = _course(series)
    best = _best_window(run, course)
    if regime.is_muted(course.step(len(series)), regime.muted_after_jumps(run, only_up=True)):
        return None
    risen = _risen(run, course, best, deviations, lost, ruin) if best is not None else None
    found = risen if risen is not None else _excursion(run, course, deviations, ruin)
    if found is None:
        return None
    shared = {"what": what, "start": course.start, "now": course.now, "noise": course.sigma}
    return replace(found, facts={**shared, **found.facts})


def _best_window(run: Run, course: _Course) -> int | None:
    """The lowest level before the end, among windows whose learning rate was comparable to today's where there are such."""
    upto = len(course.levels) - course.width
    if upto < 1:
        return None
    rate = regime.lr(run)
    allowed = np.ones(upto, dtype=bool)
    if len(rate) and rate.last > 0:
        then = rate.at(course.series.steps[:upto])
        allowed = np.where(np.isfinite(then), then, rate.last) >= 0.95 * rate.last
        raised = _raised(run, course)
        if raised is not None:
            allowed = np.asarray(course.series.steps[:upto] < raised, dtype=bool)
        elif allowed.sum() < max(3, course.width):
            return None
    if not allowed.any():
        return None
    return int(np.argmin(np.where(allowed, course.levels[:upto], np.inf)))


def _raised(run: Run, course: _Course) -> int | None:
    """The step, long ago, at which the rate was raised at once to a height it never had: the level before is the measure."""
    first, last = course.step(0), course.step(len(course.series))
    rate = regime.lr(run)
    for jump in regime.lr_jumps(run):
        before = rate.between(hi=jump.step - 1).values
        new = jump.ratio > 2 and len(before) > 0 and float(np.max(before)) < 0.7 * rate.last
        if new and last - jump.step > 0.2 * (last - first):
            return jump.step
    return None


def _risen(run: Run, course: _Course, best: int, deviations: float, lost: float, ruin: float) -> Evidence | None:
    """The level at the end is above the best one, by a good part of what was gained, and does not come back."""
    low = float(course.levels[best])
    gained, rise, sigma = max(course.start - low, 0.0), course.now - low, course.sigma
    after = course.series.values[best + course.width :]
    if rise <= deviations * sigma or len(after) < min(30, max(5, len(course.series) // 20)) or _returning(after, low, rise):
        return None
    undone = _undone(course.series, best, course.now)
    if rise <= lost * gained and not (rise > 0.3 * lost * gained and undone > ruin):
        return None
    onset = course.step(_onset(course, best + course.width - 1, low))
    if regime.data_changed(run, course.step(best), onset + 1):
        return None
    facts = {"best": low, "lost": rise / gained if gained > 0 else math.inf, "undone": undone}
    span = (onset, course.step(len(course.series)))
    if course.now > course.start + 3 * sigma and rise > max(ruin * gained, 3 * deviations * sigma):
        return Evidence(facts, steps=span, say="worse")
    if gained > deviations * sigma:
        return Evidence(facts, steps=span, say="risen", severity=_severity(run, rise / gained, lost, ruin))
    return None


def _severity(run: Run, share: float, lost: float, ruin: float) -> Severity:
    """Half of the gain lost is critical; a small part is a warning only where a cyclic learning rate is excluded."""
    if share > ruin:
        return Severity.CRITICAL
    return Severity.WARNING if share > lost or len(regime.lr(run)) else Severity.INFO


def _undone(series: Series, best: int, level: float) -> float:
    """The share of the steps up to the best level that a climb to `level` sets the run back by."""
    reached = np.flatnonzero(stats.running_median(series.values[: best + 1], 9) <= level)
    first = int(series.steps[0])
    span = max(1, int(series.steps[best]) - first)
    return 1 - (int(series.steps[reached[0]]) - first) / span if len(reached) else 0.0


def _onset(course: _Course, after: int, low: float) -> int:
    """The first record after the best level from which on the curve never comes back to it."""
    smooth = stats.running_median(course.series.values[after:], min(5, course.width))
    below = np.flatnonzero(smooth <= low + 3 * course.sigma)
    return after + (int(below[-1]) + 1 if len(below) else 0)


def _returning(after: Floats, low: float, rise: float) -> bool:
    """On its way back: well below the peak, and the last third falls fast enough to matter."""
    third = max(4, len(after) // 3)
    peak = float(np.max(stats.running_median(after, 5)))
    if len(after) < 12 or rise >= 0.5 * (peak - low):
        return False
    slope = stats.block_theil(after[-third:], alpha=0.05)
    return slope.hi < 0 and -slope.value * third > 0.25 * rise


def _excursion(run: Run, course: _Course, deviations: float, ruin: float) -> Evidence | None:
    """A climb that came back, or is coming back: how much was lost at its worst?"""
    best_so_far = np.minimum.accumulate(course.levels)
    lost = course.levels - best_so_far
    peak = int(np.argmax(lost))
    low, high = float(best_so_far[peak]), float(course.levels[peak])
    began = int(np.flatnonzero(course.levels[: peak + 1] <= low)[-1])
    before = course.start - low
    clear = deviations * course.sigma / math.sqrt(max(1.0, course.width / 5))  # noise of a level, with room for correlation
    thrown = high > course.start + max(20 * course.sigma, 0.5 * abs(course.start))  # far above where it began
    half = before > clear and lost[peak] > ruin * before
    back = before > clear and lost[peak] > 0.05 * before and _undone(course.series, began, high) > ruin
    if lost[peak] < clear or not (thrown or half or back):
        return None
    if not thrown and _explained(run, course.step(began), course.step(peak + course.width)):
        return None
    over = np.flatnonzero(course.levels[peak:] <= low + 0.25 * lost[peak])
    end = (peak + int(over[0]) if len(over) else len(course.levels) - 1) + course.width // 2
    facts = {"best": low, "peak": high, "lost": float(lost[peak]) / before if before > 0 else math.inf}
    span = (course.step(began + course.width // 2), course.step(end))
    known = len(regime.lr(run)) > 0  # else it may be a cyclic schedule
    never = (
        known
        and course.now > low + max(clear, 0.02 * before)
        and span[1] - span[0] > 0.1 * (course.step(len(course.series)) - course.step(0))
    )
    over_it = course.now < low  # it came back and continued: told, but nothing to act on
    grave = (thrown or half or never) and not over_it and not _begins_anew(run, course, began, peak)
    return Evidence(facts, steps=span, say="excursion", severity=Severity.WARNING if grave else Severity.INFO)


def _begins_anew(run: Run, course: _Course, began: int, peak: int, regained: float = 0.5) -> bool:
    """Whether a log, which tells no stages, shows another training begin that regains half of what had been gained. A
    divergence takes its time, or stays.
    """
    y = course.series.values
    stretch = y[began : peak + course.width + 1]
    if regime.knows_stages(run) or len(stretch) < 2:
        return False
    at = began + 1 + int(np.argmax(np.diff(stretch)))
    low = float(np.median(y[max(0, at - 5) : at]))
    return course.now <= course.start - regained * (course.start - low) and begins_anew(y, at)


def _explained(run: Run, low: int, high: int) -> bool:
    """Whether a climb goes with a higher learning rate, a resume or other data."""
    rate = regime.lr(run)
    then, later = (float(v) for v in rate.at([low, high])) if len(rate) else (math.nan, math.nan)
    return later > 1.3 * then or any(low <= s <= high for s in regime.seams(run)) or regime.data_changed(run, low, high)
