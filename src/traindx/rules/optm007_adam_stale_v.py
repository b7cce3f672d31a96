"""Adam's second moment lags behind the gradient, and updates burst.

## What it sees

√mean(g²/v̂) of a tensor above 2.3 followed within eight steps by a jump of the loss, at least three times. Never the ratio
alone: in healthy small transformers its 99 % quantile reaches 3 to 5.

## Why it matters

v̂ averages over about 1/(1−β₂) steps. When gradients suddenly grow, v̂ still holds the old, small value and the step is
several times too large, most often in embeddings and first layers.

## What else looks like this

- GRAD003 without a jump of the loss: harmless.
- LOSS006 without this: the reason lies elsewhere (data, learning rate).
- Other data or renewed targets (Q-learning, another task) bring larger gradients and a jump at once: not counted.

## What to do

A lower learning rate first: one that is too high shows the same. Then β₂ .999 → .95–.99, if
`traindx trial fix TARGET --set cause=adam-stale-moments` shows that it helps; or clip the update (StableAdamW).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Muted, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "OPTM007",
    needs={"adam_rms/param": 10, "loss/train": 250},
    says="{times} times the loss jumped within {within} steps after gradients of {where} were {ratio:.1f} times "
    "what Adam's moments expect",
    fix="Try a lower learning rate first. Lower β₂ only if `traindx trial fix TARGET --set cause=adam-stale-moments` helps.",
    explains=("LOSS006", "GRAD003"),
    at="optimizer rate",
)
def adam_stale_v(
    run: Run,
    *,
    limit: float = 2.3,  # CATALOGUE OPTM007, from the literature
    within: int = 8,
    times: int = 3,
) -> Iterator[Evidence]:
    series = regime.curve(run)
    if len(series) < 250:
        raise Unsure("too few losses to see jumps", needs_steps=250)
    if regime.moving_targets(run):
        raise Muted("targets are bootstrapped from the model: the loss jumps each time they are renewed, and should")
    jumps = [int(series.steps[s.index]) for s in stats.spike_events(series.values).state]
    others = [(s - 1, s + within) for s in regime.seams(run)]  # other data: a larger gradient is what they bring
    jumps = [j for j in jumps if not regime.renewed_at(run, j) and not regime.is_muted(j, others)]
    if len(jumps) < times:
        return
    table = run.matrix("adam_rms/param")
    hits: dict[str, list[int]] = {}
    peak = 0.0
    for jump in jumps:
        near = table.between(lo=jump - within, hi=jump)
        if not len(near):
            continue
        worst = np.where(np.isfinite(near.values), near.values, 0.0).max(axis=0)
        peak = max(peak, float(worst.max(initial=0.0)))
        for i in np.flatnonzero(worst > limit):
            hits.setdefault(table.names[i], []).append(jump)
    together = sorted({j for js in hits.values() for j in js})
    if len(together) < times or _always(table.values, limit):
        return
    names = tuple(sorted(hits, key=lambda n: -len(hits[n])))
    numbers = {"times": len(together), "of": len(jumps), "within": within, "ratio": peak, "limit": limit}
    yield Evidence(numbers, names, (together[0], together[-1]))


def _always(values: Floats, limit: float) -> bool:
    """Whether the ratio is above the limit most of the time anyway: then it explains no jump."""
    seen = values[np.isfinite(values).any(axis=1)]
    return bool(len(seen)) and float(np.mean(np.nanmax(seen, axis=1) > limit)) > 0.3
