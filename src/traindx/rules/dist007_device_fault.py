"""One device computes wrong numbers: one rank alone produces non-finite or wild numbers.

## What it sees

Non-finite values on one rank while all others are finite at that step, at least once as the first of the run. And
losses of one rank that leap far away from those of the others again and again, which no other rank does; that is a
hint only.

## Why it matters

Memory and arithmetic of accelerators do fail silently. After an all-reduce everybody has the NaN; who had it first is
in the ranks' files.

## What else looks like this

- A bad sample in that rank's share of the data: where its batch was seen to hold NaN or infinity, `DATA001` says so and
  this rule is silent. Else replay the step elsewhere to tell.
- An operation without a guard (`NUMR001`): any rank can be the first.

## What to do

Replay the step on another device. If the numbers are fine there, drain the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, ranks
from traindx.finding import Confidence, Evidence, Muted
from traindx.rule import rule
from traindx.run import Run
from traindx.stats import mad


@rule(
    "DIST007",
    needs={"rank/loss | rank/grad_norm | fact:world_size": 1},
    says={
        "": "the first non-finite number of the run came from {where} alone, at step {first}",
        "leaps": "the loss of {where} jumped away from that of the other ranks {often}; no other rank did that",
    },
    fix="Replay that step with the same batch on another device. If it is fine there, the device is broken; "
    "otherwise the batch is.",
    confidence=Confidence.EXACT,
    explains=(),
)
def device_fault(
    run: Run,
    *,
    z: float = 12.0,  # the level of a batch spike (CATALOGUE 2.4)
    least: int = 3,  # [def] leaps before one speaks of a habit
) -> Iterator[Evidence]:
    if not any(name in run for name in ("rank/loss", "rank/grad_norm")):
        if not _several(run):
            raise Muted("a single process")
        if not run.events_of("nonfinite"):
            ranks.rows(run, "rank/loss")  # says what is missing
    lone = _first_alone(run)
    if lone is not None and _explained(run, *lone):
        return  # DATA001 or NUMR001 names that rank
    if lone is not None:
        name, step = lone
        yield Evidence(where=(ranks.label(name),), steps=(step, step), rank=ranks.number(name))
    else:
        yield from _leaps(run, z, least)


def _first_alone(run: Run) -> tuple[str, int] | None:
    """The rank that was alone with the first non-finite number: from events that carry a rank, or infinite records."""
    events = [e for e in run.events_of("nonfinite") if e.data.get("rank") is not None]
    own = [e for e in events if e.data.get("what") == "loss"]  # gradients are everybody's after the all-reduce, a loss is not
    told = [(e.step, str(e.data["rank"])) for e in own or events]
    if told:
        first = min(step for step, _ in told)
        who = {name for step, name in told if step == first}
        return (who.pop(), first) if len(who) == 1 and _several(run) else None
    for signal in ("rank/loss", "rank/grad_norm"):
        matrix = run.matrix(signal)
        bad = np.isinf(matrix.values)
        rows = np.flatnonzero(bad.any(axis=1)) if len(matrix) else np.empty(0, int)
        if len(rows) and bad[rows[0]].sum() == 1 and np.isfinite(matrix.values[rows[0]]).any():
            return matrix.names[int(np.argmax(bad[rows[0]]))], int(matrix.steps[rows[0]])
    return None


def _explained(run: Run, name: str, step: int) -> bool:
    """Whether that rank's batch was not finite, by its own count, or a replay of the step came out the same on its device."""
    counts = run.matrix("rank/input_nonfinite")
    own = counts.column(name).between(lo=step, hi=step).values if name in counts.place else np.empty(0)
    replayed = facts.table(run, "origin")
    return bool((own > 0).any()) or replayed.get("blame") == "batch" or bool(replayed.get("proven"))


def _several(run: Run) -> bool:
    world = run.fact("world_size")
    return isinstance(world, int | float) and world > 1


def _leaps(run: Run, z: float, least: int) -> Iterator[Evidence]:
    matrix = run.matrix("rank/loss")
    whole = np.all(np.isfinite(matrix.values), axis=1) if len(matrix) else np.empty(0, bool)
    if len(matrix.names) < 3 or np.count_nonzero(whole) < 100:
        return  # with two ranks nobody can say which of them is the odd one
    values, steps = matrix.values[whole], matrix.steps[whole]
    away = values - np.median(values, axis=1, keepdims=True)
    wild = np.array([np.abs(away[:, i]) > z * max(mad(away[:, i]), 1e-12) for i in range(away.shape[1])])
    counts = wild.sum(axis=1)
    top = int(np.argmax(counts))
    if counts[top] >= least and np.delete(counts, top).sum() == 0:
        hits = steps[wild[top]]
        name = matrix.names[top]
        yield Evidence(
            where=(ranks.label(name),),
            steps=(int(hits[0]), int(hits[-1])),
            say="leaps",
            confidence=Confidence.SUGGESTIVE,
            rank=ranks.number(name),
            facts={"count": int(counts[top])},
        )
