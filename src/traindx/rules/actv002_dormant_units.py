"""Units have gone dormant: more and more units contribute almost nothing.

## What it sees

`dormant_fraction/module`, units whose mean magnitude is at most 0.025 of their layer's, above `most` and still
rising. A warning in reinforcement learning, where it goes with the loss of plasticity; info elsewhere.

## Why it matters

In long or non-stationary training the network slowly loses the units it would need for what comes next, and stops
adapting.

## What else looks like this

- Units that never fire at all: `ACTV001`.
- Sparse features of a converged classifier: many weak units, but no longer rising.

## What to do

Re-initialise dormant units from time to time (ReDo), add LayerNorm, a little weight decay, shrink-and-perturb at a
change of task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, rising


@rule(
    "ACTV002",
    needs={"dormant_fraction/module": 8},
    says="{share:.0%} of the units of {where} are dormant ({before:.0%} at the start), and their share is rising",
    fix="Re-initialise dormant units from time to time, and add LayerNorm or a little weight decay.",
)
def dormant_units(run: Run, *, most: float = 0.3) -> Iterator[Evidence]:
    # CATALOGUE; the literature speaks of plasticity loss from about a third of dormant units on.
    dormant = run.matrix("dormant_fraction/module")
    for name, values in dormant.columns():
        known = np.isfinite(values)
        late, before = finite_median(values[known][-3:]), finite_median(values[known][:3])
        if known.sum() >= 8 and late > most and late > before + 0.1 and rising(values[known][known.sum() // 2 :]):
            yield Evidence(
                where=(name,),
                steps=(int(dormant.steps[0]), int(dormant.steps[-1])),
                severity=Severity.WARNING if regime.reinforcement(run) else Severity.INFO,
                facts={"share": late, "before": before},
            )
