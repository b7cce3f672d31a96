"""Weight decay is applied wrongly: it is stronger than learning, touches what it should not, or does nothing.

## What it sees

The decay part of the update over its gradient part: above 1 for most of the run in tensors that also shrink to less
than half is a warning. A product lr·wd of 2 or more in SGD or AdamW is critical: decay alone makes the weights grow.
Remarks: norm gains that decay pulls towards zero; L2 regularisation inside Adam (not
decoupled). Also a decay whose horizon 1/(lr·wd) is shorter than a tenth of the run. Or a strong decay whose horizon is
a hundred times the run, so that it cannot act.

## Why it matters

If it is too strong, it erases what is learned. On norm gains it switches layers off. Inside Adam it is divided by v̂
and acts where gradients are small instead of where weights are large.

## What else looks like this

- Scale-invariant networks find an equilibrium with a ratio near 1 by design: their weights do not shrink further.
- WGHT002 sees the shrinking itself, for any reason.

## What to do

AdamW with .01–.1, on weight matrices only: put biases and norm gains into a group with weight decay 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM009",
    needs={"decay_share/param | fact:optimizer.groups": 10},
    says={
        "strong": "in {where} weight decay is {ratio:.1f} times as strong as the gradient, and the weights shrank to "
        "{shrunk:.0%}",
        "gains": "weight decay {decay:g} pulls norm gains to {shrunk:.0%} of their size ({where})",
        "coupled": "{optimizer} adds weight decay {decay:g} to the gradient, so weights with large gradients shrink less; "
        "AdamW shrinks all alike",
        "horizon": "weight decay {decay:g} at learning rate {lr:g} erases what was learned within {horizon} of {steps} steps",
        "flips": "weight decay {decay:g} at learning rate {lr:g} alone multiplies the weights by {factor:.3g} at every step: "
        "they cannot settle",
        "idle": "weight decay {decay:g} at learning rate {lr:g} needs {horizon} steps to act, and the run had {steps}: "
        "it did nothing",
    },
    fix={
        "strong": "Divide the weight decay by 10, and check that it is not applied twice.",
        "gains": "Put norm gains and biases into a group with weight decay 0.",
        "coupled": "Use AdamW.",
        "horizon": "Divide the weight decay by 10.",
        "flips": "Lower weight decay × learning rate far below 1; 1e-4 to 0.1 is usual for weight decay.",
        "idle": "Raise it if it is meant to regularise.",
    },
    severity=Severity.INFO,
    at="optimizer",
)
def weight_decay_misapplied(
    run: Run,
    *,
    ratio: float = 1.0,  # CATALOGUE OPTM009
    shrunk: float = 0.5,
    gone: float = 0.01,  # what is left of the weights of most layers
) -> Iterator[Evidence]:
    groups, name = facts.rows(run, "optimizer.groups"), str(run.fact("optimizer.name") or "")
    decay = max((facts.number(g.get("weight_decay"), 0.0) for g in groups), default=0.0)
    if flips := _flips(run, decay, name):
        yield flips
        return
    yield from _strong(run, ratio, shrunk)
    if decay <= 0:
        return
    if name in ("Adam", "RAdam", "NAdam", "Adamax", "RMSprop"):
        yield Evidence({"decay": decay, "optimizer": name}, say="coupled", confidence=Confidence.EXACT)
    yield from _gains(run, decay, shrunk)
    yield from _horizon(run, decay, name, gone)


def _flips(run: Run, decay: float, name: str) -> Evidence | None:
    """From lr·wd = 2 on decay throws the weights past zero to at least the same distance."""
    lr = run.series("lr").finite().values
    rate = float(np.median(lr)) if len(lr) else 0.0
    if rate * decay < 2 or name not in ("AdamW", "SGD"):
        return None
    told = {"decay": decay, "lr": rate, "factor": 1 - rate * decay}
    return Evidence(told, (), run.steps, "flips", Severity.CRITICAL, Confidence.EXACT)


def _strong(run: Run, ratio: float, shrunk: float) -> Iterator[Evidence]:
    table = run.matrix("decay_share/param")
    if not len(table):
        return
    if table.steps[-1] - table.steps[0] < 50:
        raise Unsure("too few steps", needs_steps=50)
    kept = _kept(run)
    usual = {n: float(np.nanmedian(c)) for n, c in table.columns() if np.isfinite(c).any()}
    found = [n for n, v in usual.items() if v > ratio and kept.get(n, 1.0) < shrunk]
    if found:
        worst = sorted(found, key=lambda n: -usual[n])
        numbers = {"ratio": usual[worst[0]], "shrunk": kept[worst[0]]}
        span = (int(table.steps[0]), int(table.steps[-1]))
        yield Evidence(numbers, tuple(worst), span, "strong", Severity.WARNING)


def _kept(run: Run) -> dict[str, float]:
    """What is left of each parameter's size since the first record."""
    table = run.matrix("weight_norm/param")
    out = {}
    for name, column in table.columns():
        seen = column[np.isfinite(column)]
        if len(seen) >= 2 and seen[0] > 0:
            out[name] = float(seen[-1] / seen[0])
    return out


def _gains(run: Run, decay: float, shrunk: float) -> Iterator[Evidence]:
    kept = _kept(run)
    found = [n for n in facts.strings(run, "model.norm_gains") if kept.get(n, 1.0) < shrunk]
    if found:
        worst = sorted(found, key=lambda n: kept[n])
        yield Evidence({"decay": decay, "shrunk": kept[worst[0]]}, tuple(worst), run.steps, "gains")


def _horizon(run: Run, decay: float, name: str, gone: float) -> Iterator[Evidence]:
    """1/(lr·wd) updates is how far back decoupled decay remembers."""
    lr = run.series("lr").finite().values
    rate = float(np.median(lr)) if len(lr) else 0.0
    steps = (run.steps[1] - run.steps[0] + 1) if run.steps else 0
    if rate <= 0 or steps < 200 or name not in ("AdamW", "SGD"):
        return
    horizon = 1 / (rate * decay)
    numbers = {"decay": decay, "lr": rate, "horizon": round(horizon), "steps": steps}
    if horizon < 0.1 * steps:
        # Momentum hides what of an update is decay; weights that have gone within that horizon tell.
        left = [v for n, v in _kept(run).items() if n in params.weights(run, [n])]
        yield Evidence(numbers, say="horizon", severity=Severity.WARNING if left and np.median(left) < gone else None)
    elif decay >= 0.05 and horizon > 100 * steps:
        yield Evidence(numbers, say="idle")
