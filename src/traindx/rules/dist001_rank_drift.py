"""The ranks hold different weights: replicas of one model hold different parameters.

## What it sees

Fingerprints of all parameters, written by every rank and compared offline. Under data parallelism they are equal to the
bit; any difference is a fact. It names the first step and the rank that differs. It says whether the ranks differed
from the start or later, and whether they train at different learning rates. Replicas that are equal again and again
later average on purpose; info.

## Why it matters

Each rank trains its own model on a part of the data, and the one that is saved has seen a fraction of it.

## What else looks like this

- Different *losses* on the ranks are normal: they see different batches.
- BatchNorm statistics differ per rank unless they are synchronised or sent by the wrapper. They are compared apart; a warning.
- Sharded models hold different parts by design: not judged.

## What to do

Wrap the model in DistributedDataParallel and call the wrapper, not `.module`. Give every rank the same weights before
training. What a scheduler or a stop is decided by is to be the same on all ranks: all-reduce it first. Start again from
rank 0's copy at the last equal step.
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
        "": "the parameters of the ranks differ from step {first} on: {where}",
        "rates": "the learning rates of the ranks differ from step {first} on ({rates}), and their parameters from {parted}",
        "start": "the ranks began with different weights, and nothing made them equal: {where}",
        "buffers": "the running statistics of BatchNorm differ between the ranks from step {first} on, and nothing makes them "
        "equal: evaluations and checkpoints hold those of one rank",
        "meet": "the parameters of the ranks differ between synchronisations, and are equal again later",
    },
    fix={
        "": "Call the DistributedDataParallel wrapper in every forward; restart from rank 0's weights of before step {first}.",
        "rates": "Give the scheduler the same number on all ranks (all-reduce its metric); restart before step {first}.",
        "start": "Wrap the model in DistributedDataParallel (it broadcasts rank 0's weights), or load the same state on all.",
        "buffers": "Convert with `SyncBatchNorm.convert_sync_batchnorm`, or let DistributedDataParallel send rank 0's buffers "
        "(`broadcast_buffers=True`).",
        "meet": "No action needed if you average on purpose.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("DIST006", "EVAL001", "EVAL008", "LOSS009"),
)
def rank_drift(
    run: Run,
    *,
    meetings: int = 3,
    rounding: float = 1e-6,  # of a rate that is recorded in single precision
) -> Iterator[Evidence]:
    # [def] replicas that meet to the bit three times after parting do so on purpose.
    seen = ranks.rows(run, "rank/params", sharded=False)
    parted = np.flatnonzero(~seen.equal)
    if not len(parted):
        yield from _buffers(run)
        return
    first = int(parted[0])
    again = int(np.count_nonzero(seen.equal[first:])) >= meetings
    lone = ranks.apart(seen.names, seen.values[first])
    rates = None if again else _rates(run, int(seen.steps[first]), rounding)
    yield Evidence(
        where=tuple(ranks.label(n) for n in lone),
        steps=(rates[0] if rates else int(seen.steps[first]), int(seen.steps[-1])),
        say="meet" if again else "rates" if rates else "start" if first == 0 else "",
        severity=Severity.INFO if again else None,
        rank=ranks.number(lone[0]) if len(lone) == 1 else None,
        facts={
            "records": len(seen),
            "different": len(parted),
            **({"parted": int(seen.steps[first]), "rates": rates[1]} if rates else {}),
        },
    )


def _buffers(run: Run) -> Iterator[Evidence]:
    """Replicas with equal weights whose running statistics are each rank's own."""
    if "rank/buffers" not in run:
        return
    seen = ranks.rows(run, "rank/buffers", sharded=False)
    own = np.flatnonzero(~seen.equal)
    if len(own):
        steps = (int(seen.steps[own[0]]), int(seen.steps[-1]))
        yield Evidence(
            steps=steps, say="buffers", severity=Severity.WARNING, facts={"different": len(own), "records": len(seen)}
        )


def _rates(run: Run, until: int, rounding: float) -> tuple[int, str] | None:
    """The first step, not after the parting, at which the ranks' learning rates differ, and what they were."""
    if "rank/lr" not in run:
        return None
    seen = ranks.rows(run, "rank/lr")
    low, high = np.nanmin(seen.values, axis=1), np.nanmax(seen.values, axis=1)
    apart = np.flatnonzero((high - low > rounding * np.abs(high)) & (seen.steps <= until))
    if not len(apart):
        return None
    known = [(n, v) for n, v in zip(seen.names, seen.values[apart[0]], strict=True) if np.isfinite(v)]
    told = ", ".join(f"{ranks.label(n)}: {v:.3g}" for n, v in known[:4]) + ("…" if len(known) > 4 else "")
    return int(seen.steps[apart[0]]), told
