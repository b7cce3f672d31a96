"""Norm gains have drifted: gains of norm layers go to zero or grow large; embedding rows run away.

## What it sees

Norm gains of which more than `off` fell below 0.01 since the first look, or whose largest entry rose above `most`,
and keeps rising. As info: embeddings whose largest rows have more than ten times the median norm.

## Why it matters

A gain of zero switches its channel off; a large one amplifies whatever comes. Weight decay on gains drives them to
zero for no benefit.

## What else looks like this

- Gains that start at zero (the last norm of a residual block), or that are stored as an offset from one. They are tiny
  at the first look, so they are left out.
- Embedding rows of words that never occurred: they keep their first norm.

## What to do

Exclude gains and biases from weight decay; a tenth of the learning rate for gains; norms before, not after, the
residual sum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, k_of_m, rising


@rule(
    "WGHT003",
    needs={"weight_tiny/param | weight_maxabs/param": 5},
    says={
        "off": "{share:.0%} of the gains of {where} fell below 0.01 ({before:.0%} at the start)",
        "large": "gains of {where} rose to {most:.0f} and still rise",
        "rows": "some rows of {where} have {ratio:.0f} times the median norm",
    },
    fix="Exclude norm gains from weight decay and give them a smaller learning rate.",
    explains=("ACTV001", "ACTV004"),
)
def norm_gain_drift(run: Run, *, off: float = 0.3, most: float = 20.0) -> Iterator[Evidence]:
    # CATALOGUE: .3 of the gains switched off, or one above 20.
    tiny, large = run.matrix("weight_tiny/param"), run.matrix("weight_maxabs/param")
    for name, values in tiny.columns():
        known = values[np.isfinite(values)]
        if len(known) >= 5 and known[0] < 0.1 and k_of_m(known > off):
            steps = (int(tiny.steps[0]), int(tiny.steps[-1]))
            seen = {"share": float(known[-1]), "before": float(known[0])}
            yield Evidence(where=(name,), steps=steps, say="off", facts=seen)
    for name in set(facts.strings(run, "model.norm_gains")) & set(large.names):
        values = large.column(name).finite().values
        if len(values) >= 5 and values[0] < most / 4 and k_of_m(values > most) and rising(values):
            steps = (int(large.steps[0]), int(large.steps[-1]))
            yield Evidence(where=(name,), steps=steps, say="large", facts={"most": float(values[-1])})
    high, middle = run.matrix("row_norm_p99/param"), run.matrix("row_norm_p50/param")
    both = set(middle.names)
    for name in (n for n in high.names if n in both):
        usual = finite_median(middle.column(name).values[-3:])
        ratio = finite_median(high.column(name).values[-3:]) / usual if usual > 0 else 0.0
        if ratio > 10:
            yield Evidence(where=(name,), say="rows", severity=Severity.INFO, facts={"ratio": ratio})
