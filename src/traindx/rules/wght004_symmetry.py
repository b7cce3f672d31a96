"""Units are identical and stay identical: rows of a weight matrix are identical, and stay so.

## What it sees

The share of rows that equal another row of the same matrix, before the first step (`model.twin_rows`) and later
(`weight_twins/param`; for an embedding its dimensions are compared). It fires above `share` after at least `steps`
updates. When only the start is known, it waits.

## Why it matters

Units with the same weights get the same gradient and stay the same: a layer of a thousand such units is a layer of one.
Zero or constant initialisation does it.

## What else looks like this

- A zero-initialised *last* layer or adapter: its rows part with the first update.
- Embedding rows of words that never occurred: left out.
- Grouped or tied weights by design: the rows are equal, and were meant to be.

## What to do

Initialise with `kaiming_normal_` or `xavier_uniform_`; zeros only for biases and for the last layer of a residual
branch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WGHT004",
    needs={"weight_twins/param | fact:model.twin_rows": 1},
    says="{share:.0%} of the units of {where} are identical after {updates} updates: they can only learn the same thing",
    fix="Initialise with kaiming_normal_ or xavier_uniform_ instead of a constant.",
    explains=("LOSS002", "LOSS003", "LOSS009", "LOSS011", "GRAD004", "ACTV001", "ACTV005", "WGHT005"),
    at="written|model",
)
def symmetry(
    run: Run,
    *,
    share: float = 0.1,  # CATALOGUE
    steps: int = 10,  # [def] a head that starts at zero has parted after the first update; ten leave room for warm-up
    most: float = 0.5,  # [def] half of a layer doing the same is more than a waste
) -> Iterator[Evidence]:
    twins = run.matrix("weight_twins/param")
    start = run.steps[0] if run.steps else 0
    late = twins.steps >= start + steps
    if not np.any(late):
        suspects = [n for n, v in facts.table(run, "model.twin_rows").items() if facts.number(v, 0) > share]
        if suspects and any(_counts(run, str(n)) for n in suspects):
            raise Unsure("rows are identical at the start; whether they part is not known yet", needs_steps=steps)
        return
    found: dict[str, float] = {}
    for name, values in twins.columns():
        known = values[late][np.isfinite(values[late])]
        if len(known) and known[-1] > share and _counts(run, name, live=True):
            found[name] = float(known[-1])
    if found:
        where = tuple(sorted(found, key=lambda n: -found[n]))
        last = int(twins.steps[-1])
        yield Evidence(
            where=where,
            steps=(start, last),
            severity=Severity.CRITICAL if found[where[0]] > most else Severity.WARNING,
            facts={"share": found[where[0]], "updates": last - start},
        )


def _counts(run: Run, name: str, *, live: bool = False) -> bool:
    sizes = outline.shapes(run).get(name)
    rows_only = () if live else facts.strings(run, "model.embeddings")  # of embeddings the live signal compares dimensions
    special = (*rows_only, *facts.strings(run, "model.adapters"))
    return name not in special and name not in facts.strings(run, "model.frozen") and (not sizes or _has_rows(sizes))


def _has_rows(sizes: tuple[int, ...]) -> bool:
    return len(sizes) >= 2 and sizes[0] >= 2
