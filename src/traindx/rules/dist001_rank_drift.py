"""Ranks drift apart: replicas of one model hold different parameters.

## What it sees

Fingerprints of all parameters, written by every rank and compared offline. Under data parallelism they are equal to
the bit; any difference is a fact. It names the first step and the rank that stands apart, and says whether the ranks
differed from the start or parted later. Replicas that are equal again and again later average on purpose; info.

## Why it matters

Each rank trains its own model on a part of the data, and the one that is saved has seen a fraction of it.

## What else looks like this

- Different *losses* on the ranks are normal: they see different batches.
- BatchNorm statistics differ per rank unless synchronised; they are not part of the fingerprint.
- Sharded models hold different parts by design: not judged.

## What to do

Wrap the model in DistributedDataParallel and call the wrapper, not `.module`. Give every rank the same weights before
training. Start again from rank 0's copy at the last equal step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import ranks
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST001",
    needs={"rank/params | fact:world_size": 1},
    says={
        "": "the parameters of the ranks parted at step {first}: {where}",
        "start": "the ranks held different parameters from the first look on: {where}",
        "meet": "the parameters of the ranks differ between synchronisations, and are equal again later",
    },
    fix={
        "": "Call the DistributedDataParallel wrapper in every forward; restart from rank 0's weights before step {first}.",
        "start": "Wrap the model in DistributedDataParallel (it broadcasts rank 0's weights), or load the same state on all.",
        "meet": "Nothing, if the averaging is meant.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("DIST006", "EVAL001", "EVAL008", "LOSS009"),
)
def rank_drift(run: Run, *, meetings: int = 3) -> Iterator[Evidence]:
    # [def] replicas that meet to the bit three times after parting do so on purpose.
    seen = ranks.rows(run, "rank/params", sharded=False)
    parted = np.flatnonzero(~seen.equal)
    if not len(parted):
        return
    first = int(parted[0])
    again = int(np.count_nonzero(seen.equal[first:])) >= meetings
    lone = ranks.apart(seen.names, seen.values[first])
    yield Evidence(
        where=tuple(ranks.label(n) for n in lone),
        steps=(int(seen.steps[first]), int(seen.steps[-1])),
        say="meet" if again else "start" if first == 0 else "",
        severity=Severity.INFO if again else None,
        rank=ranks.number(lone[0]) if len(lone) == 1 else None,
        facts={"records": len(seen), "different": len(parted)},
    )
