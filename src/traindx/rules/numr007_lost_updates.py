"""Updates are lost to rounding: low-precision weights swallow changes that are smaller than their spacing.

## What it sees

`lost_updates/param`, the share of entries that should have changed and did not, above `share` in the middle of the run.
It is weighted by size over the parameters kept in float16 or bfloat16.

## Why it matters

bfloat16 keeps eight bits of mantissa: a change below 0.2 % of a weight is rounded away. At the small rates late in
training nearly all updates are.

## What else looks like this

- Autocast with float32 weights: nothing is lost, whatever the forward runs in.
- The tail of a schedule, where the rate goes to zero: only the whole run's median counts.
- A learning rate that is too low: there the updates arrive, but are small (`OPTM001`).

## What to do

Keep a float32 copy of the weights in the optimizer, use stochastic rounding or Kahan summation, or autocast instead
of casting the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Evidence
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median


@rule(
    "NUMR007",
    needs={"lost_updates/param": 5},
    says="{share:.0%} of the requested weight changes are lost to rounding: {where}",
    fix="Keep float32 weights (autocast instead of casting the model), or use stochastic rounding.",
    explains=("OPTM001", "LOSS003", "LOSS009"),
    at="optimizer",
)
def lost_updates(run: Run, *, share: float = 0.5) -> Iterator[Evidence]:
    # [x] pure bfloat16 AdamW loses .22 at lr 1e-3 (and learns), .69 at 1e-4, .91 at 1e-5; float32 loses nothing.
    lost = run.matrix("lost_updates/param")
    narrow = set(facts.table(run, "model.param_dtypes")) or set(lost.names)
    keep = [i for i, n in enumerate(lost.names) if n in narrow]
    sizes = np.array([float(outline.elements(run).get(lost.names[i], 1)) for i in keep])
    values = lost.values[:, keep]
    known = np.isfinite(values)
    weight = np.where(known, sizes, 0.0).sum(axis=1)
    rows = np.where(known, values * sizes, 0.0).sum(axis=1)[weight > 0] / weight[weight > 0]
    usual = finite_median(rows)
    if len(rows) >= 5 and usual > share:
        each = {lost.names[i]: finite_median(lost.values[:, i]) for i in keep}
        worst = sorted((n for n, v in each.items() if v > share), key=lambda n: -each[n])
        steps = (int(lost.steps[0]), int(lost.steps[-1]))
        yield Evidence(where=tuple(worst), steps=steps, facts={"share": usual})
