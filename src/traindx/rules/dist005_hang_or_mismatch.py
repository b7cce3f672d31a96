"""A rank hangs, failed or got out of step: ranks wait for one another, stop at different steps, or are gone.

## What it sees

Heartbeats of the ranks' own files. A `hang` (no progress for five times the usual step plus a minute) or a rank that
went first names the ranks, how they ended and where their stacks are. Where PyTorch's flight recorder kept the last
collectives, the first one that not all ranks enter. A step in which all waited long for one rank and then continued. In
a run that has ended, ranks whose last recorded steps lie further apart than their rhythm of recording allows did not
take the same number of steps.

## Why it matters

A collective that one rank never enters blocks all others, and costs every device until the timeout.

## What else looks like this

- A long evaluation or checkpoint on rank 0, a first compilation: wait for it; the stack says so.
- Ranks that run dry one after the other under `Join`: they may take different numbers of steps.
- Ranks that record more rarely: their last step may lie a few records behind; that is allowed for.
- The broken connections of the ranks that are left, and those that the launcher ended: they are not the first.

## What to do

Give every rank the same number of batches (`drop_last`, `Join`), the same branches and the same order of collectives.
Do work of one rank outside of collectives. A rank that was killed: look at its machine's memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from traindx import facts, ranks
from traindx.finding import Blind, Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Event, Run

_WAITS = re.compile(r"all_reduce|all_gather|reduce_scatter|broadcast|barrier|backward|distributed|_engine_run|monitored|wait\(")


@rule(
    "DIST005",
    needs={"event:hang | event:rank_lost | event:collective_mismatch | rank/loss | fact:world_size": 1},
    says={
        "hang": "no progress for {seconds:.0f} s at step {first}: {where}",
        "holds": "no progress for {seconds:.0f} s at step {first}: the others wait for {where}",
        "lost": "{where} {why}; the last step in its record is {first}",
        "error": "{where} {why}, at step {first}; the others could not continue",
        "left": "{where} {why}, at step {first}",
        "differ": "the ranks call different collectives: {calls}",
        "missing": "{where} never came to a collective that the others wait in: {calls}",
        "held": "all waited {seconds:.0f} s for {where} at step {first}, and then continued",
        "uneven": "the ranks ended at different steps: {where} at {first}, the others at {last}",
    },
    fix={
        "hang": "Compare the stacks: the rank that is not in the collective holds up the others. Give all ranks the same "
        "steps and branches.",
        "holds": "Move the work of that rank out of the step, or let all ranks do it.",
        "lost": "Read that rank's own output and check its machine's memory; resume from the last common checkpoint.",
        "error": "Fix that error; it broke the connections of the other ranks.",
        "left": "Give every rank the same number of batches (drop_last=True, or Join), and decide together when to stop.",
        "differ": "Make all ranks call the same collectives in the same order: no collective in a branch of one rank.",
        "missing": "Make all ranks call the same collectives in the same order: no branch of one rank around them.",
        "held": "Check what that rank's machine did then; move work that only one rank does out of the step.",
        "uneven": "Give every rank the same number of batches: drop_last=True, or Join.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("PERF007", "DIST004"),
)
def hang_or_mismatch(
    run: Run,
    *,
    slack: int = 5,  # [def] steps that files of ranks may lag behind one another beyond three of their own records
    held: float = 20.0,  # [def] seconds, and as many usual steps, that a pause must last to be told
    dear: float = 0.1,  # [def] share of the run's own time that pauses must cost to be more than a remark
) -> Iterator[Evidence]:
    stuck, lost, apart = run.events_of("hang"), run.events_of("rank_lost"), run.events_of("collective_mismatch")
    if not stuck and not lost and not apart and "rank/loss" not in run and facts.number(run.fact("world_size"), 2) <= 1:
        raise Muted("a single process")
    pauses = list(_pauses(run, held, dear))
    last = run.steps[1] if run.steps else 0
    over = [e for e in stuck if e.step < last - 1]  # it continued later
    yield from _stuck([e for e in stuck if e not in over])
    for event in lost:
        yield _lost(event)
    for event in apart:
        who = tuple(ranks.label(str(r)) for r in _list(event.data.get("ranks")))
        calls = event.data.get("calls")
        told = (
            "; ".join(f"{ranks.label(str(r))}: {c}" for r, c in list(calls.items())[:4]) if isinstance(calls, Mapping) else ""
        )
        say = "differ" if event.data.get("kind") == "differ" else "missing"
        yield Evidence(where=who, steps=(event.step, event.step), say=say, facts={"calls": told, "seq": event.data.get("seq")})
    yield from pauses
    told_at = {e.steps[0] for e in pauses if e.steps}
    for event in over:
        if not any(abs(event.step - at) <= 1 for at in told_at):
            seconds = facts.number(event.data.get("seconds"), 0.0)
            where = (ranks.label(str(event.data.get("rank", "all ranks"))),)
            steps = (event.step, event.step)
            yield Evidence(where=where, steps=steps, say="hang", severity=Severity.WARNING, facts={"seconds": seconds})
    if not stuck and not lost:
        yield from _uneven(run, slack)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _stuck(events: list[Event]) -> Iterator[Evidence]:
    """Ranks that stand still: those outside of a collective hold the others, when there are both."""
    waits = [_waiting(e) for e in events]
    both = any(waits) and not all(waits)
    for event, waiting in zip(events, waits, strict=True):
        if both and waiting:
            continue
        who = str(event.data.get("rank", "all ranks"))
        stack = event.data.get("stack")
        place = _place(str(stack)) if stack else ""
        shown = {"seconds": facts.number(event.data.get("seconds"), 0.0), "stack": stack}
        yield Evidence(
            where=(ranks.label(who), *((place,) if place else ())),
            steps=(event.step, event.step),
            say="holds" if both else "hang",
            rank=ranks.number(who),
            facts=shown,
        )


def _place(stack: str) -> str:
    """Where a stack stands: its last frame; the line of code under it when it was printed."""
    lines = [line.strip() for line in stack.strip().splitlines() if line.strip()]
    at = [i for i, line in enumerate(lines) if line.startswith("File ")]
    return " ".join(lines[at[-1] : at[-1] + 2]) if at else lines[-1] if lines else ""


def _waiting(event: Event) -> bool:
    return bool(_WAITS.search(_place(str(event.data.get("stack") or ""))))


def _lost(event: Event) -> Evidence:
    who, how = str(event.data.get("rank", "a rank")), str(event.data.get("how"))
    why = str(event.data.get("why") or "stopped writing while others continued")
    return Evidence(
        where=(ranks.label(who),),
        steps=(event.step, event.step),
        say=how if how in ("error", "left") else "lost",
        rank=ranks.number(who),
        facts={"why": why},
    )


def _pauses(run: Run, least: float, dear: float) -> Iterator[Evidence]:
    """Steps in which one rank alone was busy with itself for long; the worst of them, with their number."""
    try:
        seen = ranks.rows(run, "rank/step_time")
    except (Blind, Muted):
        return
    with np.errstate(invalid="ignore"):
        usual = float(np.nanmedian(seen.values))
        top = np.nanmax(seen.values, axis=1)
        second = np.sort(np.where(np.isnan(seen.values), -np.inf, seen.values), axis=1)[:, -2]
    long = (top > least) & (top > least * usual) & (second < 0.5 * top) & (seen.steps > seen.steps[0])
    for i in range(len(seen.names)):
        mine = np.flatnonzero(long & (seen.values[:, i] == top))
        if len(mine):
            worst = int(mine[np.argmax(top[mine])])
            yield Evidence(
                where=(ranks.label(seen.names[i]),),
                steps=(int(seen.steps[worst]), int(seen.steps[worst])),
                say="held",
                severity=Severity.WARNING if top[mine].sum() > dear * np.nansum(top) else Severity.INFO,
                rank=ranks.number(seen.names[i]),
                facts={"seconds": float(top[worst]), "times": len(mine)},
            )


def _uneven(run: Run, slack: int) -> Iterator[Evidence]:
    if run.fact("ended") in (None, "running", "detached") or "rank/loss" not in run or run.fact("distributed.joined"):
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
