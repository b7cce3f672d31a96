"""A trainable parameter gets no gradient, or only zeros.

## What it sees

For each parameter the share of updates without a gradient (all of at least 20) or with an exactly zero one (all of at
least 50). Other parameters must get gradients. Weight matrices and parameters that make up more than 5 % of the model
are a warning, the rest a remark. Frozen parameters and adapters in their first steps are left out.

## Why it matters

That part of the model never learns. What follows it learns on random features.

## What else looks like this

- WIRE003, WIRE014: the graph does not reach it (detached, never called): then no gradient at all.
- ACTV001, ACTV005: the graph reaches it, but dead units or a clamp pass nothing on: exact zeros.
- WIRE001: gradients are fine, the optimizer does not hold it.
- Unused experts, rows of an embedding, conditional branches, LoRA's first matrix at step 0.

## What to do

Follow the loss back to the parameter: `traindx check` names the boundary. Remove it, use it, or freeze it openly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from traindx import outline
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "GRAD004",
    needs={"grad_norm/param": 3},
    says={
        "none": "{where} had no gradient at any of {records} recorded updates ({share:.1%} of the parameters)",
        "zero": "the gradient of {where} is exactly zero at all {records} recorded updates ({share:.1%} of the parameters)",
        "dead": "the input of {head} is exactly zero for every sample ({records} updates: its bias gets a gradient, its "
        "weights none). The units before it are dead, so {where} learn nothing",
        "all": "every gradient is exactly zero at all {records} recorded updates",
    },
    fix={
        "none": "Find why the loss does not depend on it: detach, no_grad, a list instead of ModuleList, or an unused branch.",
        "zero": "Find what blocks the gradient between it and the loss: dead units, a clamp, a factor of zero, a "
        "saturated activation.",
        "dead": "Initialise the units before {head} so that they fire: zero biases, He initialisation and scaled inputs. "
        "Or use LeakyReLU or GELU.",
        "all": "Find what makes the loss flat in the weights: argmax, rounding, dead units, or a constant loss.",
    },
    confidence=Confidence.EXACT,
    explains=("LOSS002", "OPTM001", "GRAD001"),
)
def no_gradient(
    run: Run,
    *,
    absent_steps: int = 20,  # CATALOGUE GRAD004
    zero_steps: int = 50,
    small: float = 0.05,  # share of the parameters below which a lone bias is only a remark
) -> Iterator[Evidence]:
    table = run.matrix("grad_norm/param")
    past_first = table.steps >= table.steps[0] + 2  # adapters start with exact zeros
    table = table.where(past_first) if past_first.sum() >= 3 else table
    span = (int(table.steps[0]), int(table.steps[-1]))
    frozen = set(run.fact("model.frozen") or ()) | set(run.fact("model.adapters") or ())
    names = [n for n in table.names if n not in frozen]
    values = params.columns(table, names)
    if span[1] - span[0] < absent_steps:
        raise Unsure("too few steps", needs_steps=absent_steps)
    missing = _never(run, table.steps, names, values)
    zero = [n for i, n in enumerate(names) if n not in missing and _all_zero(values[:, i])]
    if zero and len(zero) + len(missing) == len(names) and span[1] - span[0] >= absent_steps:
        yield Evidence({"records": len(table), "share": 1.0}, tuple(zero), span, "all", Severity.CRITICAL)
        return
    if missing and len(missing) < len(names):
        yield _evidence(run, missing, names, len(table), span, "none", small)
    if zero and span[1] - span[0] >= zero_steps and not _negligible(run, zero, names):
        told = _evidence(run, zero, names, len(table), span, "zero", small)
        head = next((o for n in params.weights(run, zero) if f"{(o := outline.owner(n))}.bias" in set(names) - set(zero)), "")
        yield replace(told, facts={**told.facts, "head": head}, say="dead") if head else told


def _negligible(run: Run, zero: list[str], names: list[str], least: float = 1e-3) -> bool:
    """A bias or two that the loss does not depend on by its form, as the last one of a critic that compares scores."""
    sizes = {n: params.numel(run, n) or 1 for n in names}
    return not params.weights(run, zero) and sum(sizes[n] for n in zero) < least * sum(sizes.values())


def _all_zero(column: Floats) -> bool:
    seen = column[np.isfinite(column)]
    return len(seen) >= 3 and not seen.any()


def _never(run: Run, steps: Ints, names: list[str], values: Floats) -> list[str]:
    """Parameters whose gradient was None at every recorded update."""
    told = run.matrix("grad_none/param")
    out = []
    for i, name in enumerate(names):
        if name in told.place:
            column = told.column(name).finite().values
            if len(column) >= 3 and column.min() >= 1:
                out.append(name)
        elif not np.isfinite(values[:, i]).any() and not np.isinf(values[:, i]).any() and len(steps) >= 3:
            out.append(name)
    return out


def _evidence(
    run: Run, found: list[str], names: list[str], records: int, span: tuple[int, int], say: str, small: float
) -> Evidence:
    sizes = {n: params.numel(run, n) or 1 for n in names}
    share = sum(sizes[n] for n in found) / max(1, sum(sizes.values()))
    phases = len(run.fact("optimizer.steps") or ()) > 1  # several optimizers: what one leaves alone another may train
    matters = (share >= small and not (say == "none" and phases)) or (say == "zero" and bool(params.weights(run, found)))
    ordered = tuple(sorted(found, key=lambda n: -sizes[n]))
    return Evidence({"records": records, "share": share}, ordered, span, say, None if matters else Severity.INFO)
