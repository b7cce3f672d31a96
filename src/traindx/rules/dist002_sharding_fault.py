"""Ranks train on the same data: ranks train on the same batches, or on the same order in every epoch.

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
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from traindx import facts, ranks
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST002",
    needs={"rank/batch | fact:world_size": 1},
    says={
        "": "{where} train on the same batches ({count} of {total} compared)",
        "groups": "{where} train on the same batches ({count} of {total} compared); {groups} groups of the {world} ranks do",
        "order": "the second epoch had the same order on {world} ranks: set_epoch was not called",
    },
    fix={
        "": "Use a DistributedSampler (or split the iterable data set by rank and worker).",
        "groups": "Tell the sampler of all ranks: num_replicas and rank are those of the whole process group.",
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
    if run.fact("distributed") in ("tp", "pp"):
        raise Muted(f"ranks share batches by design under {run.fact('distributed')}")
    seen = ranks.rows(run, "rank/batch")
    groups: list[_Group] = []
    for a, b in combinations(range(len(seen.names)), 2):
        mine, theirs = seen.values[:, a], seen.values[:, b]
        both = np.isfinite(mine) & np.isfinite(theirs)
        equal = both & (mine == theirs)
        moving = len(np.unique(mine[equal])) > 1  # one batch for good is an overfitting test
        if np.count_nonzero(equal) >= least and np.count_nonzero(equal) >= share * np.count_nonzero(both) and moving:
            group = next((g for g in groups if a in g.ranks or b in g.ranks), None)
            if group is None:
                groups.append(group := _Group())
            group.ranks |= {a, b}
            group.count = max(group.count, int(np.count_nonzero(equal)))
            group.total = max(group.total, int(np.count_nonzero(both)))
    for group in groups:
        yield Evidence(
            where=tuple(ranks.label(seen.names[i]) for i in sorted(group.ranks)),
            steps=(int(seen.steps[0]), int(seen.steps[-1])),
            say="groups" if len(groups) > 1 else "",
            facts={"count": group.count, "total": group.total, "groups": len(groups), "world": len(seen.names)},
        )


@dataclass
class _Group:
    """Ranks with the same batches; in how many of the records that were compared."""

    ranks: set[int] = field(default_factory=set)
    count: int = 0
    total: int = 0
