"""The representation has collapsed: features lose their rank and all point the same way.

## What it sees

Two things in three of the last five looks. The effective rank of the features that go into the last linear layer is
below `rank` of its early value. The mean cosine between features of different samples is above `cosine`. Classifiers
are left out: few directions per class are what they should end with.

## Why it matters

Embeddings that are all alike carry no information, however low the loss of a self-supervised or metric-learning
objective gets.

## What else looks like this

- Neural collapse at the end of classification: rank falls to the number of classes, which is good.
- Data of low dimension: the rank is low from the start.

## What to do

Stop-gradient and predictor, a variance term, a temperature of 0.1 to 0.2, BatchNorm in the projector, larger batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Muted
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, k_of_m

SUPERVISED = ("ce", "nll", "bce", "bce_logits", "mse", "l1", "huber", "ctc")


@rule(
    "ACTV009",
    needs={"effective_rank/module": 10, "feature_cosine/module": 10},
    says="features that go into {where} collapsed: effective rank {rank:.1f} (was {before:.1f}), mean cosine {cosine:.3f}",
    fix="Use a stop-gradient with a predictor, a variance term, a higher temperature, or larger batches.",
    explains=("SPEC006", "LOSS003", "LOSS011"),
)
def representation_collapse(
    run: Run,
    *,
    rank: float = 0.35,  # CATALOGUE says .2 with a cosine of .95; the first collapse seen had .16-.33 with .997
    cosine: float = 0.98,
    least: float = 5.0,  # [def] a layer that never had five directions has none to lose
) -> Iterator[Evidence]:
    if run.fact("loss.kind") in SUPERVISED and not run.fact("ssl"):
        raise Muted("supervised features may end in as few directions as there are answers")
    width, alike = run.matrix("effective_rank/module"), run.matrix("feature_cosine/module")
    for name, values in width.columns():
        if name not in alike.place:
            continue
        near = alike.column(name).at(width.steps)
        known = np.isfinite(values) & np.isfinite(near)
        ranks, cosines = values[known], near[known]
        base = finite_median(ranks[:3])
        if len(ranks) >= 10 and base >= least and k_of_m((ranks < rank * base) & (cosines > cosine)):
            steps = width.steps[known]
            seen = {"rank": float(ranks[-1]), "before": base, "cosine": float(cosines[-1])}
            yield Evidence(where=(name,), steps=(int(steps[0]), int(steps[-1])), facts=seen)
