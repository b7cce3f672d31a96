"""Memory ran out or is nearly full: the accelerator's memory is nearly full, fragmented, or ran out.

## What it sees

An out-of-memory error, or a peak of tensor memory above 92 % of the device. Allocations that succeeded only after the
cache was emptied. Reserved memory more than 30 % above the peak that tensors needed.

## Why it matters

A run at the limit dies at the first long batch. Fragmented memory dies although enough is free in sum.

## What else looks like this

- PERF002: memory grows with every step until it is full; then the leak is the root.
- A single oversized batch: the error comes at the longest sequence and at no other.

## What to do

Half the micro-batch with accumulation × 2, activation checkpointing, batches of even length, bf16. Against fragmentation
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. On the host: fewer workers, arrays instead of Python lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF003",
    needs={"mem/peak | mem/reserved | fact:memory.oom | event:oom | fact:memory.alloc_retries": 1},
    says={
        "oom": "memory ran out at step {first}{detail}",
        "caught": "memory ran out at step {first}{detail}; the program caught it and continued",
        "full": "tensors reached {share:.0%} of the device's memory",
        "retries": "{retries:.0f} allocations succeeded only after the cache was emptied",
        "fragmented": "{share:.0%} of the reserved memory was never in use at once: fragmentation",
    },
    fix={
        "oom": "{advice}",
        "caught": "{advice}",
        "": "Halve the micro-batch and accumulate twice, use activation checkpointing, or make batches of even length.",
        "fragmented": "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and make batches of even length.",
        "retries": "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or make the largest batch smaller.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def memory_pressure(
    run: Run,
    *,
    full: float = 0.92,  # CATALOGUE PERF003
    fragmented: float = 0.3,
) -> Iterator[Evidence]:
    events = run.events_of("oom")
    report = facts.table(run, "memory.oom")
    if events or report:
        end = run.steps[1] if run.steps else 0
        step = events[0].step if events else end
        message = str(report.get("message") or (events[0].data.get("message") if events else "") or "")
        where = str(report.get("where") or "")
        told = {"detail": _detail(report, message), "advice": _advice(report)}
        ended = run.fact("ended") == "exception" and step >= end
        level = Severity.CRITICAL if ended else Severity.WARNING
        yield Evidence(told, (where,) if where else (), (step, step), "caught" if step < end else "oom", level)
    peak, total = run.series("mem/peak").finite().values, facts.number(run.fact("memory.total"))
    if len(peak) and total > 0 and float(np.max(peak)) > full * total:
        yield Evidence({"share": float(np.max(peak)) / total}, ("mem/peak",), None, "full")
    retries = facts.number(run.fact("memory.alloc_retries"), 0.0)
    if retries > 0:
        yield Evidence({"retries": retries}, (), None, "retries")
    reserved = run.series("mem/reserved").finite().values
    if len(peak) and len(reserved) and float(np.max(reserved)) > 0:
        unused = 1 - float(np.max(peak)) / float(np.max(reserved))
        if unused > fragmented and (not total > 0 or float(np.max(reserved)) > 0.5 * total):
            yield Evidence({"share": unused}, ("mem/reserved",), None, "fragmented", Severity.INFO)


def _detail(report: Mapping[str, Any], message: str) -> str:
    """Where it happened and what was alive, as far as it is known; the error's own words otherwise."""
    alive = {str(k): facts.number(v, 0.0) for k, v in (report.get("alive") or {}).items()}
    if not alive:
        return f": {message.partition('. ')[0][:120]}" if message else ""
    total = sum(alive.values()) or 1.0
    shares = ", ".join(f"{kind} {size / total:.0%}" for kind, size in sorted(alive.items(), key=lambda item: -item[1])[:4])
    place = f" in {report.get('phase')} at {report.get('where')}" if report.get("where") else ""
    asked = facts.number(report.get("asked"), 0.0)
    wanted = f", which asked for {asked / 1e6:,.0f} MB" if asked > 0 else ""
    return f"{place}{wanted}; {total / 1e6:,.0f} MB of tensors were alive: {shares}"


def _advice(report: Mapping[str, Any]) -> str:
    tries = [str(t) for t in report.get("try") or []]
    first = (
        "; ".join(tries)
        if tries
        else "halve the micro-batch and accumulate twice, use activation checkpointing, or make batches of even length"
    )
    return f"{first[0].upper()}{first[1:]}."
