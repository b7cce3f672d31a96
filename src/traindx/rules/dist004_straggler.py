"""Straggler: one rank is slower than the others, and all wait for it.

## What it sees

Time per step of every rank without collectives, compared with the median of the others: more than `ratio` in at least
`share` of 200 or more steps. The straggler is the one that waits least.

## Why it matters

A synchronous step takes as long as its slowest rank. A rank that is a fifth slower costs every device that fifth.

## What else looks like this

- Sequences of uneven length take turns being slow: no rank is slow in most steps.
- A rank that logs or saves: slow now and then, not always.

## What to do

Balance the work by length or token count; look at the clocks, the memory errors, the disk and the neighbours of that
rank's machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from traindx import ranks
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST004",
    needs={"rank/step_time | fact:world_size": 1},
    says="{where} takes {slow:.2f}× the time of the others, in {share:.0%} of the steps",
    fix="Balance its work, or look at that machine's clocks, disk and memory.",
    explains=("PERF007",),
)
def straggler(
    run: Run,
    *,
    ratio: float = 1.1,  # CATALOGUE
    share: float = 0.8,  # CATALOGUE
    steps: int = 200,  # CATALOGUE
    far: float = 1.5,  # [def] on a noisy machine single steps scatter: half as slow again in the median, and in most of them
    most: float = 0.65,
    warn: float = 1.2,  # [def] below a fifth it is worth knowing; the rank that logs is often a little slower
) -> Iterator[Evidence]:
    seen = ranks.rows(run, "rank/step_time")
    for i, name in enumerate(seen.names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # rows in which only this rank was heard
            others = np.nanmedian(np.delete(seen.values, i, axis=1), axis=1)
        mine = seen.values[:, i]
        both = np.isfinite(mine) & np.isfinite(others) & (others > 0)
        if np.count_nonzero(both) < steps:
            continue
        slow = mine[both] / others[both]
        often, usual = float(np.mean(slow > ratio)), float(np.median(slow))
        if often >= share or (usual >= far and often >= most):
            yield Evidence(
                where=(ranks.label(name),),
                steps=(int(seen.steps[0]), int(seen.steps[-1])),
                severity=Severity.WARNING if usual >= warn else Severity.INFO,
                rank=ranks.number(name),
                facts={"slow": usual, "share": often},
            )
