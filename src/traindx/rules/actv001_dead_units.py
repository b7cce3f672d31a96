"""Many units never fire: a large part of a layer never fires.

## What it sees

`dead_fraction/module`: units that stayed silent over a whole window of at least `samples` samples (a single batch
proves nothing; of a layer without any living unit `few` suffice). More than `most` of a layer, or `growth` more than
at the first look, in two of the last three windows.

## Why it matters

A ReLU unit that is negative for every input gets no gradient and stays dead. The layer is as narrow as what is left,
and nothing in the loss curve says so.

## What else looks like this

- Narrow ReLU layers of healthy nets have 15 to 25 % such units. Half zeros in an output is sparsity, not death.
- Dropout, top-k sparsity and padding make zeros, but not for every sample.
- Experts that no token reaches: not counted in models with a router.
- Weak but living units: `ACTV002`. One constant output for all inputs: `ACTV005`.

## What to do

The usual cause is one large early step: lower the learning rate (or warm up) and start again, or re-initialise those
units. LeakyReLU or GELU, a norm before the activation, and centred inputs keep units alive.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run

UNLIKE = ("softmax", "sigmoid", "tanh", "dropout", "softsign", "hardtanh")  # they saturate or drop, they do not die


@rule(
    "ACTV001",
    needs={"dead_fraction/module": 1, "dead_samples/module": 1},
    says={
        "": "{share:.0%} of the units of {where} never fired in {samples:.0f} samples",
        "growth": "{share:.0%} of the units of {where} never fired in {samples:.0f} samples ({before:.0%} at the start)",
    },
    fix="Start again with a lower learning rate or a warm-up. LeakyReLU, GELU or a norm before the activation "
    "keeps units alive.",
    explains=("GRAD001", "GRAD004", "ACTV002", "LOSS002", "LOSS003", "LOSS009"),
)
def dead_units(
    run: Run,
    *,
    most: float = 0.5,  # [x] healthy ReLU nets of depth 8 show .15-.25
    growth: float = 0.3,  # CATALOGUE
    samples: int = 1000,  # a unit silent for n samples fires in fewer than 3/n of them (95 %): here .3 %
    gone: float = 0.95,  # [def] nothing passes a layer with so few units left
    few: int = 300,  # samples that suffice to say that of a whole layer: each unit fires in fewer than 1 % of them
) -> Iterator[Evidence]:
    dead, counted = run.matrix("dead_fraction/module"), run.matrix("dead_samples/module")
    kinds = facts.table(run, "model.activations")
    routed = len(run.matrix("expert_load/expert")) > 0
    short: list[str] = []
    found = False
    for name, values in dead.columns():
        if name not in counted.place or str(kinds.get(name, "")).lower() in UNLIKE:
            continue
        seen = counted.column(name).at(dead.steps)
        use = np.isfinite(values) & (seen >= np.where(values >= gone, few, samples))
        late = values[use]
        if not len(late):
            short.append(name)
        say = _verdict(late, most, growth)
        if say is None or (routed and late[-1] == 1.0):
            continue
        at = dead.steps[use]
        facts_ = {"share": float(late[-1]), "before": float(late[0]), "samples": float(seen[use][-1])}
        severity = Severity.CRITICAL if late[-1] >= gone else None
        yield Evidence(where=(name,), steps=(int(at[0]), int(at[-1])), say=say, severity=severity, facts=facts_)
        found = True
    if short and not found:
        raise Unsure(f"{', '.join(short[:3])}: not watched over {samples} samples yet")


def _verdict(late: Floats, most: float, growth: float) -> str | None:
    """Each window is a statement about many batches; where there are several, the last two must agree."""
    if not len(late):
        return None
    if len(late) >= 3 and np.all(late[-2:] > late[0] + growth):
        return "growth"
    return "" if np.all(late[-2:] > most) else None
