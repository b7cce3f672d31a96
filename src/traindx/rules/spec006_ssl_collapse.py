"""Embeddings have collapsed: all samples get the same embedding.

## What it sees

`ssl/embedding_spread`, the deviation of normalised embeddings over samples, in units of an even spread. It is measured
where two batches of one shape go through one network and no loss has a target. It fires below `least` in three of the
last five looks of a run of at least `steps` steps.

## Why it matters

Two views of one sample agree perfectly when everything agrees with everything. The loss is excellent, and the
representation is empty.

## What else looks like this

- The first steps of some methods, whose embeddings start close together: they spread out; only late looks count.
- Features of a supervised model that become few: `ACTV009` explains.

## What to do

Stop-gradient and predictor, a variance term, a temperature of 0.1 to 0.2, BatchNorm in the projector, a slower target
network.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m


@rule(
    "SPEC006",
    needs={"ssl/embedding_spread": 6},
    says="embeddings of different samples are nearly the same: their spread is {spread:.2g} of that of evenly spread ones",
    fix="Use a stop-gradient with a predictor, a variance term, or a higher temperature; restart.",
    severity=Severity.CRITICAL,
    explains=("ACTV009", "LOSS011", "LOSS003"),
    at="loss sum",
)
def ssl_collapse(run: Run, *, least: float = 0.1, steps: int = 100) -> Iterator[Evidence]:
    # CATALOGUE: a deviation far below 1/√d; [def] a tenth of it.
    spread = run.series("ssl/embedding_spread").finite()
    if len(spread) < 6 or spread.steps[-1] - spread.steps[0] < steps:
        return
    late = spread.values[len(spread) // 2 :]
    if k_of_m(late < least):
        low = spread.steps[spread.values < least]
        yield Evidence(steps=(int(low[0]), int(low[-1])), facts={"spread": spread.last})
