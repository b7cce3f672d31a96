"""Predictions and targets are broadcast: the shapes differ, so every prediction is compared with every target.

## What it sees

Outputs and targets of different shapes went into an element-wise loss and were broadcast to something larger than
either: (N,) against (N, 1) becomes N × N. The shapes are a fact of the first call.

## Why it matters

The best answer to all targets at once is their mean. The model learns to predict it, the loss stalls at the variance
of the targets, and torch says so only in a warning that scrolls away.

## What else looks like this

- A scalar or one-element target for a whole batch (GAN labels): the result is no larger than the output; not
  reported.
- One target repeated over several outputs, (N, C) against (N, 1): possibly meant; info.
- Predicting the mean for other reasons: `ACTV005`, `LOSS011`.

## What to do

Make the shapes equal: `output.squeeze(-1)` or `target.unsqueeze(-1)`, and assert it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE008",
    needs={"fact:loss.broadcast": 1},
    says={
        "": "outputs {input} and targets {target} are broadcast to {result}: every prediction is compared with every target",
        "repeated": "targets {target} are broadcast over outputs {input}; check that this is intended",
        "unknown": "outputs and targets of different shapes are broadcast in the loss",
    },
    fix="Give both the same shape: output.squeeze(-1) or target.unsqueeze(-1).",
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS011", "LOSS002", "LOSS003", "LOSS009", "ACTV005", "EVAL003"),
)
def loss_broadcast(run: Run) -> Iterator[Evidence]:
    if not run.fact("loss.broadcast"):
        return
    where = facts.strings(run, "loss.site")
    mine, theirs = _shape(run, "loss.input_shape"), _shape(run, "loss.target_shape")
    if mine is None or theirs is None:
        yield Evidence(where=where, steps=run.steps, say="unknown", severity=Severity.WARNING)
        return
    result = _together(mine, theirs)
    shown = {"input": mine, "target": theirs, "result": result}
    if math.prod(result) > max(math.prod(mine), math.prod(theirs)):
        yield Evidence(where=where, steps=run.steps, facts=shown)
    elif math.prod(theirs) > 1 and math.prod(mine) > 1:
        yield Evidence(where=where, steps=run.steps, say="repeated", severity=Severity.INFO, facts=shown)


def _shape(run: Run, key: str) -> tuple[int, ...] | None:
    value = run.fact(key)
    return tuple(int(facts.number(v, 1)) for v in value) if isinstance(value, list | tuple) else None


def _together(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape two shapes broadcast to.

    >>> _together((32,), (32, 1))
    (32, 32)
    """
    return tuple(max(m, n) for m, n in zip_longest(a[::-1], b[::-1], fillvalue=1))[::-1]
