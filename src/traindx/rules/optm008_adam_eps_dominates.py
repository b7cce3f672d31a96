"""Adam's ε is larger than the gradients it divides by: steps are damped.

## What it sees

The share of entries with √v̂ below ten times ε, per tensor. It must exceed half in tensors that make up more than a
tenth of the parameters and whose gradients are not zero. It is a warning when the loss does not come down, or crawls
because nearly all tensors are damped to steps below 1e-4 of their size. Otherwise it is a remark. It is also a remark
where tensors that ε leaves alone move less than 1e-5 of their size per step, and in reinforcement learning, where the
loss does not show progress. A loss near zero has gradients near zero: then nothing is said.

## Why it matters

Where ε dominates, Adam is plain gradient descent with a step of lr·g/ε, mostly far too small.

## What else looks like this

- OPTM001: all steps small, with v̂ well above ε.
- GRAD001: only the early layers.
- Rows of an embedding that are never used, padding rows.

## What to do

ε 1e-8 → 1e-12 (1e-15); check that the loss is not divided twice (by the tokens and again by the batch); scale the loss up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM008",
    needs={"adam_small_v/param": 5},
    says="the gradients of {share:.0%} of the parameters ({where}) are so small that Adam's ε shortens most of their steps",
    fix="Lower ε to 1e-12, or scale the loss up; check that it is not divided twice.",
    explains=("OPTM001", "LOSS002"),
    at="optimizer sum",
)
def adam_eps_dominates(
    run: Run,
    *,
    entries: float = 0.5,  # CATALOGUE OPTM008
    least_share: float = 0.1,
    idle: float = 1e-5,  # as OPTM001: where the others do not move either, ε is not what holds the run back
) -> Iterator[Evidence]:
    table = run.matrix("adam_small_v/param")
    skip = set(run.fact("model.embeddings") or ())
    names = [n for n in table.names if n not in skip]
    if not names or table.steps[-1] - table.steps[0] < 20:
        raise Unsure("too few steps", needs_steps=20)
    early = table.where(table.steps <= table.steps[0] + max(50, (table.steps[-1] - table.steps[0]) // 2))
    values = params.columns(early, names)
    usual = [float(np.nanmedian(c)) if np.isfinite(c).any() else 0.0 for c in values.T]
    found = [n for n, v in zip(names, usual, strict=True) if v > entries and not _silent(run, n)]
    sizes = {n: params.numel(run, n) or 1 for n in names}
    share = sum(sizes[n] for n in found) / max(1, sum(sizes.values()))
    if not found or share < least_share or _idle(run, [n for n in names if n not in found], idle):
        return
    ordered = tuple(sorted(found, key=lambda n: -sizes[n]))
    span = (int(early.steps[0]), int(early.steps[-1]))
    yield Evidence({"share": share}, ordered, span)


def _idle(run: Run, names: list[str], limit: float) -> bool:
    """The tensors that ε leaves alone hardly move: the step size keeps them all still."""
    table = run.matrix("update_ratio/param")
    known = params.weights(run, [n for n in names if n in table.names])
    values = params.columns(table, known) if known else np.empty((0, 0))
    return bool(np.isfinite(values).any() and np.nanmedian(values) < limit)


def _silent(run: Run, name: str) -> bool:
    """Its gradient is exactly zero: another rule's business."""
    table = run.matrix("grad_norm/param")
    if name not in table.place:
        return False
    seen = table.column(name).finite().values
    return len(seen) > 0 and not seen.any()
