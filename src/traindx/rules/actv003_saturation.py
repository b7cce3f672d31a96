"""Saturated units: bounded activations sit in their flat tails.

## What it sees

`act_saturated/module`: units of a tanh or sigmoid that are stuck on one side for more than 90 % of the samples, more
than `most` of a layer in three of the last five looks. The output activation is left out.

## Why it matters

In the flat tail the derivative is nearly zero: little gradient passes, and the layers before it learn slowly or not
at all.

## What else looks like this

- Gates that learn to be open or closed late in training: a sigmoid that was free at first is info.
- The output sigmoid of a good classifier: saturated because it is right.
- Small gradients for other reasons: `GRAD001`.

## What to do

Scale the inputs, initialise with Xavier (gain 5/3 for tanh), put a norm before the activation, lower the learning
rate by three.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m

GATES = ("sigmoid", "hardsigmoid")


@rule(
    "ACTV003",
    needs={"act_saturated/module": 3},
    says="{share:.0%} of the units of {where} are saturated, {before:.0%} at first",
    fix="Scale the inputs, use Xavier initialisation or a norm before the activation, lower the learning rate by three.",
    explains=("GRAD001", "LOSS002", "LOSS009"),
)
def saturation(run: Run, *, most: float = 0.5) -> Iterator[Evidence]:
    # CATALOGUE: more than half of the units in three checks.
    table, kinds = run.matrix("act_saturated/module"), facts.table(run, "model.activations")
    head = facts.table(run, "model.head_activation").get("module")
    for name, values in table.columns():
        known = values[np.isfinite(values)]
        if name == head or not k_of_m(known > most):
            continue
        learned = str(kinds.get(name, "")).lower() in GATES and float(np.median(known[:3])) <= most
        yield Evidence(
            where=(name,),
            steps=(int(table.steps[0]), int(table.steps[-1])),
            severity=Severity.INFO if learned else None,
            facts={"share": float(known[-1]), "before": float(known[0])},
        )
