"""Gradients are not synchronised between ranks: ranks update from different gradients.

## What it sees

Fingerprints of the gradients at the update, equal to the bit under data parallelism, that differ between ranks; where
only gradient norms were recorded, those. At every update the wrapper is not used at all; at some of them `no_sync`
sometimes covers the last micro-batch. Where the norms of some parameters differ and those of others do not, the
parameters are named that are left out.

## Why it matters

Replicas part with the first update (`DIST001`), and each learns from its own share of the data.

## What else looks like this

- Micro-batches under `no_sync` differ by design; what counts is the update.
- Methods that average weights instead of gradients: replicas meet again and again; info.
- Sharded gradients differ by design: not judged.

## What to do

Run the forward through the wrapper (`ddp(x)`, not `ddp.module(x)`). Leave `no_sync` before the last backward of an
accumulation. Check hooks and parameters that some ranks do not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from traindx import ranks
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "DIST003",
    needs={"rank/grads | rank/grad_norm | fact:world_size": 1},
    says={
        "": "gradients differ between ranks at every update that was compared ({count}): they are not synchronised",
        "part": "gradients of {differ} of {of} parameters differ between ranks, those of the others do not: {where}",
        "some": "gradients differ between ranks at {count} of {total} updates: they are not always synchronised",
        "meet": "gradients differ between ranks while their weights are averaged from time to time",
    },
    fix={
        "": "Wrap the model in DistributedDataParallel and call the wrapper in forward, not its .module.",
        "part": "Average the gradients of all parameters: put them all under one DistributedDataParallel, and call that.",
        "some": "Leave no_sync() before the last backward of each accumulation.",
        "meet": "No action needed if you average on purpose.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("DIST001", "DIST006"),
)
def grads_not_synced(
    run: Run,
    *,
    meetings: int = 3,  # as in DIST001: weights that are equal again three times are averaged on purpose
    rounding: float = 1e-4,  # [x] norms of synchronised gradients are equal to the bit; unsynchronised ones differ by 1-50 %
    least: int = 3,  # [def] records of norms that must differ
) -> Iterator[Evidence]:
    exact = "rank/grads" in run or "distributed" not in run.facts
    seen = ranks.rows(run, "rank/grads" if exact else "rank/grad_norm", sharded=False)
    apart = np.flatnonzero(~seen.equal if exact else _spread(seen) > rounding)
    if len(apart) < (1 if exact else least):
        return
    first = int(seen.steps[apart[0]])
    meet = _meet(run, first) >= meetings
    say = "meet" if meet else "" if len(apart) == len(seen) else "some"
    lone = ranks.apart(seen.names, seen.values[apart[0]])
    left_out = run.fact("ranks.unequal_gradients")
    part = say == "" and isinstance(left_out, Mapping) and isinstance(left_out.get("names"), list | tuple)
    shown = {"differ": left_out.get("differ"), "of": left_out.get("of")} if part else {}
    yield Evidence(
        where=tuple(str(n) for n in left_out["names"][:12]) if part else tuple(ranks.label(n) for n in lone),
        steps=(first, int(seen.steps[apart[-1]])),
        say="part" if part else say,
        severity=Severity.INFO if meet else None,
        confidence=None if exact else Confidence.STRONG,
        rank=ranks.number(lone[0]) if len(lone) == 1 else None,
        facts={"count": len(apart), "total": len(seen), **shown},
    )


def _spread(seen: ranks.Rows) -> Floats:
    """Largest minus smallest value of each record, relative to the largest."""
    top = np.nanmax(np.abs(seen.values), axis=1)
    gap = np.nanmax(seen.values, axis=1) - np.nanmin(seen.values, axis=1)
    return np.asarray(np.divide(gap, top, out=np.zeros_like(gap), where=top > 0), dtype=np.float64)


def _meet(run: Run, since: int) -> int:
    """How often the weights were equal on all ranks after a step, having differed at least once."""
    if "rank/params" not in run:
        return 0
    seen = ranks.rows(run, "rank/params")
    later = seen.equal[seen.steps > since]
    return int(np.count_nonzero(later)) if not np.all(later) else 0
