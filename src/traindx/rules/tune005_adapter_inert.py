"""Adapters are there and do nothing.

## What it sees

Adapter pairs (LoRA) whose second matrix is still exactly zero after 20 steps, adapter parameters in no optimizer, and
adapter parameters that had no gradient at any update.

## Why it matters

A zero second matrix means that the adapted model equals the base model to the bit: the run has changed nothing, however its
loss moved.

## What else looks like this

- The first matrix has no gradient at step 0: right, because the second is zero then. The rule waits for 20 steps.
- Warm-up from a rate of zero: the first step moves nothing; 20 do.
- WIRE001, WIRE002: the same for ordinary parameters.

## What to do

`model.enable_input_require_grads()` with gradient checkpointing over frozen embeddings; check `target_modules` and that the
adapter is active; build the optimizer after the adapters; learning rate 1e-4 to 2e-4, α = 2r.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE005",
    needs={"fact:model.adapters": 1},
    says={
        "zero": "{where}: still exactly zero after {steps} steps ({count} of {adapters} adapters)",
        "unowned": "{where}: adapter parameters in no optimizer",
        "none": "{where}: no gradient at any of {steps} updates",
    },
    fix={
        "": "Check target_modules and the active adapter; build the optimizer after adding adapters. If both matrices of an "
        "adapter start at zero, initialise one of them at random: otherwise neither gets a gradient.",
        "none": "Call enable_input_require_grads() when gradient checkpointing runs over frozen embeddings; check the "
        "active adapter.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS002", "LOSS003", "GRAD004", "OPTM001"),
)
def adapter_inert(run: Run, *, least_steps: int = 20) -> Iterator[Evidence]:  # CATALOGUE TUNE005
    adapters = set(facts.strings(run, "model.adapters"))
    if not adapters:
        return
    span = run.steps
    steps = span[1] - span[0] + 1 if span else 0
    owned = tuple(n for n in facts.strings(run, "model.unowned") if n in adapters)
    if owned:
        yield Evidence({}, owned, None, "unowned")
    if steps < least_steps:
        if not owned:
            raise Unsure(f"{steps} steps were seen; adapters start at zero", needs_steps=least_steps - steps)
        return
    zero = facts.strings(run, "model.adapter_b_zero")
    if zero:
        yield Evidence(
            {"steps": steps, "count": len(zero), "adapters": max(len(adapters) // 2, len(zero))},
            zero,
            span,
            "zero",
            _part(zero, adapters),
        )
    absent = run.matrix("grad_none/param")
    silent = tuple(n for n, v in absent.columns() if n in adapters and len(v) >= 3 and np.all(v == 1))
    if silent and not owned and not zero:
        yield Evidence({"steps": steps}, silent, span, "none", _part(silent, adapters))


def _part(found: tuple[str, ...], adapters: set[str]) -> Severity:
    """All of them waste the run; a few are a module that is not used."""
    return Severity.CRITICAL if len(found) >= 0.4 * len(adapters) else Severity.WARNING
