"""Units are saturated: bounded activations sit in their flat tails.

## What it sees

`act_saturated/module`: units of a tanh or sigmoid that stay on one side for more than 90 % of the samples. It fires
when they are more than `most` of a layer in three of the last five looks. Tanh layers whose outputs have an RMS above
`level` sit at both ends. The output activation is left out.

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

from traindx import facts, outline
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m

GATES = ("sigmoid", "hardsigmoid")


@rule(
    "ACTV003",
    needs={"act_saturated/module | act_rms/module": 3},
    says={
        "": "{share:.0%} of the units of {where} are saturated ({before:.0%} at the start)",
        "tails": "outputs of {where} are at their limits (RMS {level:.2f} of 1; {before:.2f} at the start)",
    },
    fix="Scale the inputs, use Xavier initialisation or a norm before the activation, lower the learning rate by three.",
    explains=("GRAD001", "LOSS002", "LOSS009"),
)
def saturation(
    run: Run,
    *,
    most: float = 0.5,  # CATALOGUE: more than half of the units in three checks
    level: float = 0.9,  # [def] healthy tanh layers have an RMS of .3-.7; .9 leaves four fifths of them beyond .97
) -> Iterator[Evidence]:
    table, kinds = run.matrix("act_saturated/module"), facts.table(run, "model.activations")
    head = str(facts.table(run, "model.head_activation").get("module"))
    stuck: set[str] = set()
    for name, values in table.columns():
        known = values[np.isfinite(values)]
        if name == head or not k_of_m(known > most):
            continue
        stuck.add(name)
        learned = str(kinds.get(name, "")).lower() in GATES and float(np.median(known[:3])) <= most
        yield Evidence(
            where=(name,),
            steps=(int(table.steps[0]), int(table.steps[-1])),
            severity=Severity.INFO if learned else None,
            facts={"share": float(known[-1]), "before": float(known[0])},
        )
    yield from _tails(run, {*stuck, head}, level)


def _tails(run: Run, told: set[str], level: float) -> Iterator[Evidence]:
    """Tanh layers whose units flip between both ends: none is stuck, all are saturated."""
    rms, kinds = run.matrix("act_rms/module"), facts.table(run, "model.activations")
    classes = outline.classes(run)
    for name, values in rms.columns():
        known = values[np.isfinite(values)]
        tanh = str(kinds.get(name, classes.get(name, ""))).lower() == "tanh"
        if tanh and name not in told and len(known) >= 3 and k_of_m(known > level):
            early = float(np.median(known[:3]))
            yield Evidence(
                where=(name,),
                steps=(int(rms.steps[0]), int(rms.steps[-1])),
                say="tails",
                severity=Severity.WARNING if early > level else Severity.INFO,
                facts={"level": float(known[-1]), "before": early},
            )
