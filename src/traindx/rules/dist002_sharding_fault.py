"""Sharding fault: ranks train on the same batches, or on the same order in every epoch.

## What it sees

Fingerprints of the batches that are equal on two or more ranks, in at least `least` records and nearly always. And an
epoch that repeats the order of the one before although several ranks train: `set_epoch` was not called.

## Why it matters

Ranks that see the same batch compute the same gradient: N devices do the work of one, and the effective batch is N
times smaller than planned.

## What else looks like this

- Overfitting one batch on purpose: the batch also repeats over time; not reported.
- Tensor and pipeline parallelism feed the same batch to all ranks by design: not judged.
- A fixed order in a single process: `DATA005`.

## What to do

`DistributedSampler` with `sampler.set_epoch(epoch)` at the top of every epoch; split an IterableDataset by rank *and*
by worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from traindx import facts, ranks
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST002",
    needs={"rank/batch | fact:world_size": 1},
    says={
        "": "{where} train on the same batches ({count} of {total} compared)",
        "order": "the second epoch had the same order on {world} ranks: set_epoch was not called",
    },
    fix={
        "": "Use a DistributedSampler (or split the iterable data set by rank and worker).",
        "order": "Call sampler.set_epoch(epoch) at the start of every epoch.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("OPTM011", "LOSS012", "DATA005", "DATA012"),
)
def sharding_fault(run: Run, *, least: int = 3, share: float = 0.9) -> Iterator[Evidence]:
    # CATALOGUE: equal in three steps. [def] `share` leaves room for a batch that two ranks share by chance.
    world = int(facts.number(run.fact("world_size"), 1))
    if world > 1 and run.fact("data.order_repeats"):
        yield Evidence(steps=run.steps, say="order", severity=Severity.WARNING, facts={"world": world})
        if "rank/batch" not in run:
            return
    seen = ranks.rows(run, "rank/batch", sharded=False)
    same: set[str] = set()
    count = total = 0
    for a, b in combinations(range(len(seen.names)), 2):
        mine, theirs = seen.values[:, a], seen.values[:, b]
        both = np.isfinite(mine) & np.isfinite(theirs)
        equal = both & (mine == theirs)
        moving = len(np.unique(mine[equal])) > 1  # one batch for ever is an overfitting test
        if np.count_nonzero(equal) >= least and np.count_nonzero(equal) >= share * np.count_nonzero(both) and moving:
            same |= {seen.names[a], seen.names[b]}
            count, total = max(count, int(np.count_nonzero(equal))), max(total, int(np.count_nonzero(both)))
    if same:
        where = tuple(ranks.label(n) for n in seen.names if n in same)
        yield Evidence(where=where, steps=(int(seen.steps[0]), int(seen.steps[-1])), facts={"count": count, "total": total})
