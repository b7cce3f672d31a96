"""Values come close to the limit of float16: values approach 65,504, where half precision overflows.

## What it sees

In runs that use float16: modules whose largest output exceeds `share` of what the type can hold in three of the last
five looks. And a replay that is finite in float32 and not in float16: then precision is to blame for the NaN, which
is a fact.

## Why it matters

One more doubling and the activation is infinite, the loss NaN, the update skipped; with a scaler the scale then
collapses (`NUMR005`).

## What else looks like this

- Mask values of −1e9, which are −inf in float16: infinite values are not counted, only large finite ones.
- Growth in float32 or bfloat16: their range is far away; see `ACTV004`, `WGHT001`.

## What to do

Use bfloat16. Or keep softmax, norms, logits and losses in float32, scale queries before their product, and mask with
`torch.finfo(dtype).min`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import breakdown, facts, outline
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m


@rule(
    "NUMR004",
    subject="half-precision",
    needs={"act_limit/module | fact:origin": 3},
    says={
        "": "outputs of {where} reach {most:.0%} of the largest float16 number",
        "replay": "{op} at {where} overflows in half precision at step {first} and is finite in float32",
    },
    fix="Use bfloat16, or keep softmax, norms, logits and the loss in float32.",
    explains=("NUMR001", "NUMR002", "NUMR003", "NUMR005", "LOSS001", "LOSS002"),
)
def fp16_overflow(run: Run, *, share: float = 0.25) -> Iterator[Evidence]:
    # CATALOGUE: a quarter of the range, two doublings from overflow.
    origin = facts.table(run, "origin")
    if origin.get("blame") == "precision":
        broke = breakdown.first_break(run)
        yield Evidence(
            where=breakdown.place(origin),
            steps=(broke.step, broke.step) if broke is not None else run.steps,
            say="replay",
            severity=Severity.CRITICAL,
            confidence=Confidence.EXACT,
            facts={"op": str(origin.get("op") or "an operation")},
        )
        return
    if outline.low_precision(run) != "float16":
        return
    limit = run.matrix("act_limit/module")
    high = {}
    for name, values in limit.columns():
        known = values[np.isfinite(values)]
        if k_of_m(known > share):
            high[name] = float(known[-1])
    if high:
        worst = sorted(high, key=lambda n: -high[n])
        steps = (int(limit.steps[0]), int(limit.steps[-1]))
        yield Evidence(where=tuple(worst), steps=steps, facts={"most": high[worst[0]]})
