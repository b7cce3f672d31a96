"""The host waits for the accelerator several times in every step.

## What it sees

Calls that must wait for the device (`.item()`, `.cpu()`, `nonzero`, a comparison in Python) on accelerator tensors, counted
on sampled steps: more than three a step. A warning where a profile shows the device idle for more than 10 % of the time, a
remark otherwise.

## Why it matters

Each wait drains the queue of work. The device then idles until Python has prepared the next operation.

## What else looks like this

- PERF001: it is idle because there is no batch.
- PERF005: operations are so short that Python cannot keep up even without waits.
- On a CPU there is nothing to wait for: not judged. One `.item()` per logging interval is fine.

## What to do

Log every 50 steps, keep running sums on the device, copy with `non_blocking=True`, replace Python conditions on tensors by
`torch.where`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF004",
    needs={"sync_calls": 3},
    says="{calls:.0f} calls per step wait for the device (more than {most}){idle}",
    fix="Log less often, keep sums on the device, copy with non_blocking=True; replace Python conditions on tensors.",
    severity=Severity.WARNING,
)
def sync_points(
    run: Run,
    *,
    most: int = 3,  # CATALOGUE PERF004
    idle: float = 0.1,
) -> Iterator[Evidence]:
    if str(run.fact("device", "cpu")).partition(":")[0] in ("cpu", ""):
        raise Muted("a CPU run has no device to wait for")
    calls = run.series("sync_calls").finite()
    usual = float(np.median(calls.values)) if len(calls) else 0.0
    if usual <= most:
        return
    busy = facts.number(facts.table(run, "perf.profile").get("busy"))
    costs = busy < 1 - idle
    words = f"; the device is idle {1 - busy:.0%} of the time" if busy <= 1 else ""
    steps = (int(calls.steps[0]), int(calls.steps[-1]))
    yield Evidence({"calls": usual, "most": most, "idle": words}, (), steps, "", Severity.WARNING if costs else Severity.INFO)
