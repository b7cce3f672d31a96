"""The learning rate has collapsed: it cut the learning rate to almost nothing, or never raised it.

## What it sees

The learning rate over time, compared with its peak and with the plan. It looks for:

- zero from the start;
- below a thousandth of the peak with more than a fifth of the steps still to come, or already made that way;
- a plateau scheduler that cut three times while the loss was falling;
- a schedule planned for another number of steps than were made.

If the factor between the two is the number of batches in an epoch, the accumulation steps or the number of processes,
it says so. That unit was mixed up.

## Why it matters

Gradients stay healthy and nothing moves any more. Everything after the collapse is wasted.

## What else looks like this

- The planned end of an annealing: only the last fifth counts as planned. Arithmetic helps: a cosine is at 65 % of its peak
  after 40 %.
- OPTM001: small from the first step on.
- A killed run: it ends before its schedule does, at no special factor.

## What to do

Correct the unit. Resume with the rate back at .3–1 × its *peak*: a five-fold raise did nothing after a ten-thousand-fold
decay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from traindx import regime
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import falls
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "OPTM003",
    needs={"lr": 5},
    says={
        "zero": "the learning rate is 0 at all {records} recorded steps",
        "collapsed": "the learning rate fell to {now:.2e}, {share:.1e} of its peak, at step {first} with {left:.0%} of the "
        "steps left",
        "cuts": "the learning rate was cut {cuts} times to {now:.2e} while the loss was still falling",
        "early": "the schedule is planned for {planned} steps and took {taken}: it ended {factor:.0f}× too early{unit}",
        "late": "the schedule is planned for {planned} steps and took only {taken}: it ran {factor:.0f}× too slowly{unit}",
    },
    fix={
        "": "Set the length of the schedule to the real number of updates; resume with the learning rate back at its peak.",
        "zero": "Set a learning rate above 0; check the scheduler's multiplier and warm-up.",
        "cuts": "Give the plateau scheduler the right metric and mode, and more patience; resume at a higher rate.",
        "early": "Set its length to {wanted} (optimizer steps in all), or call scheduler.step() once per epoch.",
        "late": "Call scheduler.step() after every optimizer.step(), or set its length to {taken}.",
    },
    explains=("LOSS003", "LOSS002", "LOSS009", "OPTM001"),
    at={"": "scheduler horizon", "zero": "scheduler|optimizer rate"},
)
def schedule_collapsed(
    run: Run,
    *,
    low: float = 1e-3,  # CATALOGUE OPTM003
    left: float = 0.2,
    near: float = 0.1,  # how close a factor must be to a known unit
) -> Iterator[Evidence]:
    rate = regime.lr(run)
    if len(rate) < 5:
        raise Unsure("too few finite learning rates", needs_steps=5)
    peak = float(np.max(rate.values))
    span = (int(rate.steps[0]), int(rate.steps[-1]))
    if peak == 0:
        groups = run.matrix("lr/group").values
        if groups.size and np.nanmax(np.where(np.isfinite(groups), groups, 0.0)) > 0:
            return  # one group among several: OPTM010
        yield Evidence({"records": len(rate)}, steps=span, say="zero", severity=Severity.CRITICAL, confidence=Confidence.EXACT)
        return
    mixed = _unit(run, rate, near)
    if mixed is not None:
        yield mixed
        return
    cut = _cuts(run, rate)
    if cut is not None:
        yield cut
        return
    fell = _collapse(run, rate, peak, low, left)
    if fell is not None:
        yield fell


def _collapse(run: Run, rate: Series, peak: float, low: float, left: float) -> Evidence | None:
    """The last time the rate went below a thousandth of its peak and stayed there, early enough to matter."""
    tiny = rate.values < 0.99 * low * peak
    high = np.flatnonzero(~tiny)
    if not tiny[-1] or not len(high):
        return None
    at = int(rate.steps[min(int(high[-1]) + 1, len(rate) - 1)])
    end = max(regime.planned_steps(run) or 0, run.steps[1] if run.steps else at)
    begin = int(rate.steps[0])
    share = (end - at) / max(1, end - begin)
    if share <= left:
        return None
    done = run.steps[1] if run.steps else at
    numbers = {"now": rate.last, "share": rate.last / peak, "left": share, "peak": peak}
    since = regime.curve(run).between(lo=at).values
    goes_on = len(since) >= 12 and falls(since)  # the loss fell all the same
    return Evidence(numbers, steps=(at, done), say="collapsed", severity=Severity.INFO if goes_on else None)


def _cuts(run: Run, rate: Series) -> Evidence | None:
    """A plateau scheduler that cut at least three times while the loss was falling."""
    name = str(run.fact("schedule.name") or "")
    if "plateau" not in name.lower():
        return None
    at = np.flatnonzero(np.diff(rate.values) < -0.05 * rate.values[:-1]) + 1
    loss = regime.curve(run)
    edges = [int(rate.steps[0]), *(int(rate.steps[i]) for i in at)]
    wrong = 0
    for lo, hi in pairwise(edges):
        part = loss.between(lo, hi - 1).values
        if len(part) >= 24 and falls(part):
            wrong += 1
    if len(at) < 3 or wrong < 3:
        return None
    numbers = {"cuts": len(at), "now": rate.last, "wrong": wrong}
    return Evidence(numbers, steps=(edges[1], int(rate.steps[-1])), say="cuts")


def _unit(run: Run, rate: Series, near: float) -> Evidence | None:
    """The schedule's length against the scheduler steps that were made: off by a factor that is a known unit."""
    planned = run.fact("schedule.planned_steps")
    if not isinstance(planned, int | float) or planned < 1 or "plateau" in str(run.fact("schedule.name") or "").lower():
        return None
    calls = run.series("loop/scheduler_steps").finite()
    updates = (run.steps[1] - run.steps[0] + 1) if run.steps else len(rate)
    taken = float(np.sum(calls.values)) * (updates / max(1, len(calls))) if len(calls) else float(updates)
    if taken < 1:
        return None
    wanted = regime.planned_steps(run) or updates
    span = (int(rate.steps[0]), int(rate.steps[-1]))
    numbers: dict[str, Any] = {"planned": int(planned), "taken": round(taken), "wanted": int(wanted)}
    if taken > 1.5 * planned:
        factor = taken / planned
        unit = _named(run, factor, near)
        numbers |= {"factor": factor, "unit": f" (the number of {unit})" if unit else "", "named": unit}
        gone = _unusable(rate, planned)
        if not unit and not gone:
            return None
        return Evidence(numbers, steps=span, say="early", severity=Severity.WARNING if unit or gone else Severity.INFO)
    factor = planned / taken
    unit = _named(run, factor, near)
    if factor >= 2 and unit and _complete(run):
        numbers |= {"factor": factor, "unit": f" (the number of {unit})", "named": unit}
        return Evidence(numbers, steps=span, say="late")
    return None


def _named(run: Run, factor: float, near: float) -> str:
    """Which unit this factor is: batches per epoch, accumulation steps, processes; empty when none."""
    backwards = run.series("loop/backwards").finite().values
    units = {
        "batches in an epoch": regime.steps_per_epoch(run),
        "accumulation steps": round(float(np.median(backwards))) if len(backwards) else None,
        "processes": run.fact("world_size"),
    }
    for name, value in units.items():
        if isinstance(value, int | float) and value >= 2 and abs(factor / value - 1) <= near:
            return name
    return ""


def _unusable(rate: Series, planned: float) -> bool:
    """After its planned end the schedule left nothing, or began to swing up and down again."""
    later = rate.values[rate.steps >= rate.steps[0] + planned]
    peak = float(np.max(rate.values))
    if len(later) < 5:
        return False
    return bool(np.median(later) < 1e-3 * peak)


def _complete(run: Run) -> bool:
    """Whether the run reached its own end: then a schedule that has hardly moved was not simply cut short."""
    ended = run.fact("ended")
    plan = regime.planned_steps(run)
    done = run.steps[1] if run.steps else 0
    return ended in ("closed", "exit") or (plan is not None and done >= 0.95 * plan and math.isfinite(done))
