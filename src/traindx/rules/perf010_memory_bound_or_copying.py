"""Copies or transfers take much of the time: the device spends its time moving numbers, not computing with them.

## What it sees

A profile of a few steps, made on request (`traindx run --profiler 10`): copies between layouts and types, or transfers from
the host, above 10 % of the step.

## Why it matters

Copies compute nothing. They come from `.contiguous()`, `permute`, `to(...)` in the loop, from mixed memory formats, and
from batches that are sent when they are needed instead of before.

## What else looks like this

- PERF001: the batch is not ready yet. Here it is ready and being moved.
- PERF004: the host waits for a copy back.

## What to do

`pin_memory=True` and `.to(device, non_blocking=True)`; one memory format (`channels_last` for convolutions); fuse
element-wise operations with `torch.compile`; bf16 halves what is moved.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF010",
    needs={"fact:perf.profile": 1},
    says={
        "copies": "{share:.0%} of a step is copies between layouts and types{top}",
        "transfer": "{share:.0%} of a step is transfers from the host",
    },
    fix={
        "copies": "Keep one memory format, avoid .contiguous() and .to() in the loop, fuse with torch.compile.",
        "transfer": "Use pin_memory=True and .to(device, non_blocking=True), and send the next batch while this one is "
        "computed.",
    },
    severity=Severity.INFO,
)
def memory_bound_or_copying(
    run: Run,
    *,
    most: float = 0.1,  # CATALOGUE PERF010
    grave: float = 0.3,
) -> Iterator[Evidence]:
    profile = facts.table(run, "perf.profile")
    rows = profile.get("top")
    ops = [str(r.get("op")) for r in rows if isinstance(r, dict) and r.get("op")] if isinstance(rows, list | tuple) else []
    for say, key in (("copies", "copy_share"), ("transfer", "h2d_share")):
        share = facts.number(profile.get(key), 0.0)
        if most < share <= 1:
            severity = Severity.WARNING if share > grave else Severity.INFO
            top = f"; most time in {', '.join(ops[:2])}" if ops else ""
            yield Evidence({"share": share, "top": top}, tuple(ops[:3]), None, say, severity)
