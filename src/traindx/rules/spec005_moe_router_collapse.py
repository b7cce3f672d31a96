"""The router uses only a few experts: a few experts get most of the tokens.

## What it sees

The share of tokens each expert of a router gets (`expert_load/expert`, names are `router/expert`), averaged over the
last fifth of the run. It fires when one expert is above `peak` times the mean, or the entropy of the load is below
`entropy` of its maximum. Idle experts are named. Where loads were not recorded: four or more modules that are alike, of
which at most a quarter was ever called.

## Why it matters

Experts that get no tokens do not learn, and so get none later; the model is as large as before and as able as the few
that work.

## What else looks like this

- The first steps, before routing settles: only the last fifth counts, of at least five looks and 20 steps.
- Experts that specialise: loads differ by a factor of two or three.
- Heads of several tasks, of which each step calls one: quiet when it is not always the same.

## What to do

A balance loss of 1e-2, a router z-loss of 1e-3, a capacity factor of 1.25, or balancing by a bias per expert.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Evidence, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "SPEC005",
    subject="experts",
    needs={"expert_load/expert | fact:model.never_called": 5},
    says={
        "": "{busiest} gets {top:.0%} of the tokens ({peak:.1f}× its share); {idle} of {experts} experts of {router} are idle",
        "idle": "only {busy} of {experts} modules of {router} are ever called: the router has collapsed",
    },
    fix="Add a balance loss of 1e-2 and a router z-loss of 1e-3, or balance by a bias per expert.",
    explains=("GRAD004", "ACTV001"),
)
def moe_router_collapse(run: Run, *, peak: float = 4.0, entropy: float = 0.5) -> Iterator[Evidence]:
    # CATALOGUE: four times the mean load, or half of the possible entropy.
    if "expert_load/expert" not in run:
        yield from _never_chosen(run)
        return
    load = run.matrix("expert_load/expert")
    if len(load) < 5 or load.steps[-1] - load.steps[0] < 20:
        raise Unsure("routing has hardly begun", needs_steps=20)
    routers: dict[str, list[int]] = {}
    for i, name in enumerate(load.names):
        routers.setdefault(name.rpartition("/")[0] or "the router", []).append(i)
    late = np.where(np.isfinite(load.values), load.values, np.nan)[-max(len(load) // 5, min(5, len(load) // 2)) :]
    for router, columns in routers.items():
        part = late[:, columns]
        if _heads(load.values[:, columns]):
            continue
        if len(columns) < 2 or not np.all(np.isfinite(part).any(axis=0)):
            continue
        mean = np.nanmean(part, axis=0)
        total = float(mean.sum())
        if not 0 < total < np.inf or np.any(mean < 0):
            continue
        share = mean / total
        used = share[share > 0]
        spread = float(-(used * np.log(used)).sum()) / math.log(len(columns))
        top = int(np.argmax(share))
        if share[top] * len(columns) > peak or spread < entropy:
            idle = [load.names[c] for c, s in zip(columns, share, strict=True) if s < 0.1 / len(columns)]
            shown = {
                "busiest": load.names[columns[top]],
                "top": float(share[top]),
                "peak": float(share[top]) * len(columns),
                "idle": len(idle),
                "experts": len(columns),
                "router": router,
            }
            steps = (int(load.steps[-len(late)]), int(load.steps[-1]))
            yield Evidence(where=tuple(idle) or (load.names[columns[top]],), steps=steps, facts=shown)


def _heads(loads: Floats) -> bool:
    """Whether each look found one of them with everything, and not always the same: the heads of several tasks."""
    known = loads[np.isfinite(loads).all(axis=1)]
    return len(known) > 0 and bool(np.all(known.max(axis=1) == known.sum(axis=1))) and len(np.unique(known.argmax(axis=1))) > 1


def _never_chosen(run: Run) -> Iterator[Evidence]:
    """Containers of modules that are alike, of which at most a quarter was ever called."""
    kinds, called = outline.classes(run), outline.first_called(run)
    idle = facts.strings(run, "model.never_called")
    homes: dict[tuple[str, str], list[str]] = {}
    for name, kind in kinds.items():
        if name.rpartition(".")[2].isdigit():
            homes.setdefault((outline.owner(name), kind), []).append(name)
    for (home, _), alike in homes.items():
        unused = tuple(n for n in alike if n not in called and any(outline.inside(i, [n]) for i in idle))
        busy = [n for n in alike if n in called]
        if len(alike) >= 4 and busy and len(busy) <= len(alike) / 4 and len(unused) == len(alike) - len(busy):
            shown = {"busy": len(busy), "experts": len(alike), "router": home}
            yield Evidence(where=unused, steps=run.steps, say="idle", facts=shown)
