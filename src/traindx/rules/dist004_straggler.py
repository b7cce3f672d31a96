"""One rank slows down all others: one rank is slower than the others, and all wait for it.

## What it sees

The time per step of every rank, without its waits for others, compared with the median of the others. The excess is
given as a share of the step that all of them wait through. More than `ratio` in at least `share` of 50 or more steps.
And the few steps that DistributedDataParallel clocks itself, backward included: the straggler computes longest and
waits least.

## Why it matters

A synchronous step takes as long as its slowest rank. A rank that is a fifth slower costs every device that fifth.

## What else looks like this

- Sequences of uneven length take turns being slow: no rank is slow in most steps.
- A rank that logs or saves: slow at times, not always.
- Sharded models and synchronised buffers make ranks wait in the forward, too: only what lies outside is compared.

## What to do

Balance the work by length or token count; look at the clocks, the memory errors, the disk and the neighbours of that
rank's machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from traindx import ranks
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "DIST004",
    needs={"rank/step_time | fact:world_size": 1},
    says={
        "": "all ranks wait for {where} in {share:.0%} of the steps, which take {slow:.2f}× as long as without it",
        "inside": "{where} computes longest and waits least in {share:.0%} of the {count} steps that DDP timed: they take "
        "{slow:.2f}× as long",
    },
    fix="Balance its work, or check that machine's clock speed, disk and memory.",
    explains=("PERF007",),
)
def straggler(
    run: Run,
    *,
    ratio: float = 1.1,  # CATALOGUE
    share: float = 0.8,  # CATALOGUE
    steps: int = 50,  # CATALOGUE says 200; who is slow in four of five of 50 steps is not so by chance
    far: float = 1.5,  # [def] on a noisy machine single steps scatter: half as slow again in the median, and in most of them
    most: float = 0.65,
    warn: float = 1.2,  # [def] below a fifth it is worth knowing; the rank that logs is often a little slower
    clocked: int = 5,  # [def] steps clocked by DDP, one in a hundred, before they count
) -> Iterator[Evidence]:
    seen = ranks.rows(run, "rank/step_time")
    whole = _whole(run, seen)
    found, looked = False, 0
    for i, name in enumerate(seen.names):
        slow = _slowed(seen, i, whole)
        looked = max(looked, len(slow))
        if len(slow) < steps:
            continue
        often, usual = float(np.mean(slow > ratio)), float(np.median(slow))
        if often >= share or (usual >= far and often >= most):
            found = True
            yield _told(seen, name, usual, often, "", warn)
    if not found and "rank/compute" in run and "rank/comm" in run:
        for inside in _inside(run, ratio, share, clocked, warn):
            found = True
            yield inside
    if not found and looked < steps:
        raise Unsure(f"only {looked} steps were timed on all ranks", needs_steps=steps - looked)


def _told(seen: ranks.Rows, name: str, usual: float, often: float, say: str, warn: float) -> Evidence:
    return Evidence(
        where=(ranks.label(name),),
        steps=(int(seen.steps[0]), int(seen.steps[-1])),
        say=say,
        severity=Severity.WARNING if usual >= warn else Severity.INFO,
        rank=ranks.number(name),
        facts={"slow": usual, "share": often, "count": len(seen)},
    )


def _whole(run: Run, seen: ranks.Rows) -> Floats:
    """Time of the whole step, which ranks in step have in common; NaN where it is not known."""
    step = run.series("time/step").finite()
    known = np.isin(seen.steps, step.steps)
    return np.where(known, step.at(seen.steps), np.nan)


def _others(values: Floats, i: int) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows in which only this rank was heard
        return np.asarray(np.nanmedian(np.delete(values, i, axis=1), axis=1), dtype=np.float64)


def _slowed(seen: ranks.Rows, i: int, whole: Floats) -> Floats:
    """How many times longer each step takes because of this rank; of its own time where the whole step's is not known."""
    mine, others = seen.values[:, i], _others(seen.values, i)
    both = np.isfinite(mine) & np.isfinite(others) & (others > 0)
    mine, others, whole = mine[both], others[both], whole[both]
    rest = np.where(np.isfinite(whole) & (whole >= mine), whole - mine, 0.0)  # what the ranks spend together
    return np.asarray((rest + mine) / (rest + others), dtype=np.float64)


def _inside(run: Run, ratio: float, share: float, least: int, warn: float) -> Iterator[Evidence]:
    seen, waits = ranks.rows(run, "rank/compute"), ranks.rows(run, "rank/comm")
    if seen.names != waits.names or not np.array_equal(seen.steps, waits.steps) or len(seen) < least:
        return
    whole = np.nanmax(seen.values + waits.values, axis=1)
    for i, name in enumerate(seen.names):
        longest = seen.values[:, i] - _others(seen.values, i)
        slow = whole / np.maximum(whole - longest, seen.values[:, i] * 1e-3)
        often = float(np.mean((slow > ratio) & (waits.values[:, i] <= np.nanmin(waits.values, axis=1))))
        if often >= share:
            yield _told(seen, name, float(np.median(slow)), often, "inside", warn)
