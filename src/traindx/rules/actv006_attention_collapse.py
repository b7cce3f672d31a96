"""Attention has collapsed: heads look at a single position while their logits run away.

## What it sees

The lowest head's attention entropy below `entropy` of its maximum *and* logits above `logit` that still rise, in
three of the last five looks. Low entropy alone is no fault.

## Why it matters

Softmax of huge logits has no gradient left; the head cannot change any more, and the loss spikes or diverges when it
has to.

## What else looks like this

- Sharp heads by skill (induction heads, attention sinks, previous-token heads): entropy .1 to .4 and logits of 10 to
  40 in healthy models.
- Short sequences and sliding windows: the entropy is held against their own length.

## What to do

Normalise queries and keys, cap the logits, lower the learning rate by three, warm up longer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m, rising


@rule(
    "ACTV006",
    needs={"attn_entropy/module": 3, "attn_logit_max/module": 3},
    says="attention of {where} collapsed: entropy {entropy:.3f} of its maximum, logits up to {logit:.0f} and rising",
    fix="Normalise queries and keys or cap the logits at 50; lower the learning rate by three, warm up longer.",
    explains=("LOSS001", "LOSS006", "GRAD003", "NUMR004"),
)
def attention_collapse(run: Run, *, entropy: float = 0.05, logit: float = 100.0) -> Iterator[Evidence]:
    # [x] healthy heads .10-.40 with logits 10-40; collapsed at most .03 with 280-60,000.
    sharp, large = run.matrix("attn_entropy/module"), run.matrix("attn_logit_max/module")
    for name, values in sharp.columns():
        if name not in large.place:
            continue
        height = large.column(name).at(sharp.steps)
        both = np.isfinite(values) & np.isfinite(height)
        low, high = values[both], height[both]
        if len(low) >= 3 and k_of_m((low < entropy) & (high > logit)) and rising(large.column(name).values):
            steps = sharp.steps[both]
            seen = {"entropy": float(low[-1]), "logit": float(high[-1])}
            yield Evidence(where=(name,), steps=(int(steps[0]), int(steps[-1])), facts=seen)
