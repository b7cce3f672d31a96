"""The device is mostly idle: many tiny operations, or higher precision than needed.

## What it sees

A profile of a few steps, made on request (`traindx run --profiler 10`). The device is busy for less than 70 % of the
time although batches are there (the wait for data is below 5 %), and the median operation is shorter than 15 µs.

## Why it matters

Starting an operation costs about 5 to 10 µs of Python. When the operation itself takes 3 µs, the device waits for Python.

## What else looks like this

- PERF001: it waits for data. PERF004: it waits because Python waits for it.
- A network that is simply small: on a CPU this is the normal state of a toy, and is not judged.

## What to do

A larger batch, `torch.compile`, `foreach` or `fused` optimizers, CUDA graphs; bf16 autocast, `channels_last`,
`torch.set_float32_matmul_precision("high")`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF005",
    needs={"fact:perf.profile": 1},
    says="the device is busy {busy:.0%} of the time: a step has {ops:.0f} operations, and the median one takes "
    "only {kernel:.3g} µs",
    fix="Use a larger batch, torch.compile, or a fused optimizer; bf16 autocast and set_float32_matmul_precision('high').",
    severity=Severity.WARNING,
)
def launch_bound_or_underused(
    run: Run,
    *,
    busy: float = 0.7,  # CATALOGUE PERF005
    kernel_us: float = 15.0,
    wait: float = 0.05,
) -> Iterator[Evidence]:
    profile = facts.table(run, "perf.profile")
    if str(profile.get("device", run.fact("device", "cpu"))).partition(":")[0] in ("cpu", ""):
        raise Muted("a CPU run has no launches to be bound by")
    worked, kernel = facts.number(profile.get("busy")), facts.number(profile.get("median_kernel_us"))
    data, step = run.series("time/data").finite().values, run.series("time/step").finite().values
    waits = float(np.median(data)) / float(np.median(step)) if len(data) and len(step) and float(np.median(step)) > 0 else 0.0
    if worked < busy and kernel < kernel_us and waits < wait:
        yield Evidence({"busy": worked, "kernel": kernel, "ops": facts.number(profile.get("ops_per_step"), 0.0)})
