"""Hang or mismatch: ranks wait for one another, stop at different steps, or are gone.

## What it sees

Heartbeats of the ranks' own files. A `hang` (no progress for five times the usual step plus a minute) or a rank that
stopped writing names the ranks and where their stacks stood. In a run that has ended, ranks whose last recorded steps
lie further apart than their rhythm of recording allows did not take the same number of steps.

## Why it matters

A collective that one rank never enters holds all others for ever, and costs every device until the timeout.

## What else looks like this

- A long evaluation or checkpoint on rank 0, a first compilation: wait for it; the stack says so.
- Ranks that record more rarely: their last step may lie a few records behind; that is allowed for.

## What to do

Give every rank the same number of batches (`drop_last`, `Join`), the same branches and the same order of collectives.
Do work of one rank outside of collectives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, ranks
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST005",
    needs={"event:hang | event:rank_lost | rank/loss | fact:world_size": 1},
    says={
        "hang": "no progress for {seconds:.0f} s at step {first}: {where}",
        "lost": "{where} stopped writing at step {first} while others went on",
        "uneven": "the ranks ended at different steps: {where} at {first}, the others at {last}",
    },
    fix={
        "hang": "Compare the stacks: the rank that is not in the collective holds the others. Equal steps, equal branches.",
        "lost": "Look at that rank's own output and at its machine; resume from the last common checkpoint.",
        "uneven": "Give every rank the same number of batches: drop_last=True, or Join.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("PERF007", "DIST004"),
)
def hang_or_mismatch(run: Run, *, slack: int = 5) -> Iterator[Evidence]:
    # [def] steps that files of ranks may lag behind one another beyond three of their own records.
    stuck, lost = run.events_of("hang"), run.events_of("rank_lost")
    if not stuck and not lost and "rank/loss" not in run and facts.number(run.fact("world_size"), 2) <= 1:
        raise Muted("a single process")
    for event in stuck:
        who = str(event.data.get("rank", "all ranks"))
        stack = event.data.get("stack")
        where = (ranks.label(who), *((str(stack).strip().splitlines()[-1].strip(),) if stack else ()))
        shown = {"seconds": facts.number(event.data.get("seconds"), 0.0), "stack": stack}
        yield Evidence(where=where, steps=(event.step, event.step), say="hang", rank=ranks.number(who), facts=shown)
    for event in lost:
        who = str(event.data.get("rank", "a rank"))
        yield Evidence(where=(ranks.label(who),), steps=(event.step, event.step), say="lost", rank=ranks.number(who))
    if not stuck and not lost:
        yield from _uneven(run, slack)


def _uneven(run: Run, slack: int) -> Iterator[Evidence]:
    if run.fact("ended") in (None, "running") or "rank/loss" not in run:
        return
    losses = run.matrix("rank/loss")
    ends: dict[str, tuple[int, float]] = {}
    for name, values in losses.columns():
        at = losses.steps[np.isfinite(values)]
        if len(at) >= 2:
            ends[name] = int(at[-1]), float(np.median(np.diff(at)))
    if len(ends) < 2:
        return
    last = max(end for end, _ in ends.values())
    short = [n for n, (end, gap) in ends.items() if last - end > 3 * gap + slack]
    if short:
        first = min(ends[n][0] for n in short)
        where = tuple(ranks.label(n) for n in short)
        rank = ranks.number(short[0]) if len(short) == 1 else None
        yield Evidence(where=where, steps=(first, last), say="uneven", severity=Severity.WARNING, rank=rank)
