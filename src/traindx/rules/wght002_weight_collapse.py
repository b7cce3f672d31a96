"""Weights shrink to almost nothing: the norm of a weight matrix has gone to almost zero.

## What it sees

Weight matrices whose norm fell below `share` of its first value. Critical when they make up more than half of the
parameters. Where weight decay outweighs the gradient's part of the update, that is named as the cause.

## Why it matters

A layer without weights passes nothing on. The outputs fade to the bias, and the loss to that of a constant.

## What else looks like this

- Pruning and L1 penalties shrink weights by intent.
- Zero-initialised heads and adapters start at zero: they are left out.
- Norm gains: `WGHT003`.

## What to do

A tenth of the weight decay; look for decay applied twice (in the loss and in the optimizer).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, k_of_m


@rule(
    "WGHT002",
    needs={"weight_norm/param": 5},
    says={
        "": "the weights of {where} shrank to {ratio:.2g} of their first norm",
        "decay": "the weights of {where} shrank to {ratio:.2g} of their first norm: weight decay is {decay:.1f}× the "
        "gradient's part",
    },
    fix="Use a tenth of the weight decay; make sure that it is not applied twice.",
    explains=("ACTV005", "LOSS002", "LOSS009", "GRAD001", "OPTM009"),
    at="optimizer",
)
def weight_collapse(run: Run, *, share: float = 0.01) -> Iterator[Evidence]:
    # CATALOGUE: a hundredth of the first value.
    norms, sizes = run.matrix("weight_norm/param"), outline.elements(run)
    decay = outline.latest(run.matrix("decay_share/param"))
    small: dict[str, float] = {}
    for name, values in norms.columns():
        known = values[np.isfinite(values)]
        apart = name in (*facts.strings(run, "model.norm_gains"), *facts.strings(run, "model.adapters"))
        if apart or not outline.is_matrix(run, name) or len(known) < 5:
            continue
        first = float(known[0])
        if first / math.sqrt(sizes.get(name, 1)) > 1e-3 and k_of_m(known < share * first):
            small[name] = float(known[-1]) / first
    if not small:
        return
    where = tuple(sorted(small, key=lambda n: -sizes.get(n, 0)))
    pull = finite_median([decay[n] for n in where if n in decay])
    yield Evidence(
        where=where,
        steps=(int(norms.steps[0]), int(norms.steps[-1])),
        say="decay" if pull > 1 else "",
        severity=Severity.CRITICAL if outline.share(run, where) > 0.5 else Severity.WARNING,
        facts={"ratio": small[where[0]], "decay": pull},
    )
