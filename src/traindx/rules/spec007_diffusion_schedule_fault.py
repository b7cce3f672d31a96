"""The noise schedule does not fit the target: some noise levels do not learn, or their losses are out of order.

## What it sees

Training loss by noise-level bin (`diffusion/loss/bin`). A bin that kept at least `stuck` of its first loss while the
others fell to less than `learned` of theirs is named. Losses that neither fall nor rise along the noise levels are
info.

## Why it matters

A wrong target (ε against v), a schedule that is read backwards, or a weighting that silences a part of the levels
shows as a bin that never learns. Samples then break at that stage.

## What else looks like this

- Bins with hardly any noise (or nothing else) have little to learn: the first and the last bin are left out.
- The order of losses depends on the target: falling for ε, rising for the clean image; only disorder is mentioned.

## What to do

Check target and schedule against each other on one sample: x_t = α_t x + σ_t ε must give back x; look at the loss
weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats import kendall
from traindx.stats.persistence import finite_median


@rule(
    "SPEC007",
    needs={"diffusion/loss/bin": 50},
    says={
        "": "at noise levels {where} the loss is still {kept:.0%} of its first value, while at others it fell to {others:.0%}",
        "order": "the loss does not follow the noise level (rank correlation {agreement:.2f})",
    },
    fix="Check the target (ε, v or x), the schedule's direction and the loss weights of these levels.",
    at="loss",
)
def diffusion_schedule_fault(run: Run, *, stuck: float = 0.95, learned: float = 0.7) -> Iterator[Evidence]:
    # [def] a level that lost less than a twentieth while the usual one lost a third.
    table = run.matrix("diffusion/loss/bin")
    fifth = max(len(table) // 5, 10)
    kept: dict[str, float] = {}
    late: list[float] = []
    for name, values in table.columns():
        first, last = finite_median(values[:fifth]), finite_median(values[-fifth:])
        if first > 0 and last >= 0:
            kept[name] = last / first
            late.append(last)
    inner = list(kept)[1:-1]
    if len(inner) < 3:
        return
    others = float(np.median([kept[n] for n in inner]))
    slow = tuple(n for n in inner if kept[n] >= stuck)
    steps = (int(table.steps[0]), int(table.steps[-1]))
    if slow and others < learned and len(slow) <= len(inner) // 2:
        yield Evidence(where=slow, steps=steps, facts={"kept": kept[slow[0]], "others": others})
    agreement = kendall(late)
    if len(late) >= 6 and abs(agreement) < 0.3:
        yield Evidence(steps=steps, say="order", severity=Severity.INFO, facts={"agreement": agreement})
