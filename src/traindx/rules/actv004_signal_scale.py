"""The signal fades or explodes with depth: activations explode or fade with depth, or keep growing.

## What it sees

The root mean square of each weight layer's output in forward order. At the first look, before training has done much:
a change of more than `decades` powers of ten from the first layers to the last. Later: outputs that reached `growth`
times their early level and still rise.

## Why it matters

A signal that fades by a constant factor per layer carries nothing to the end, and its gradient fades on the way back.
One that grows runs into the limits of the number type.

## What else looks like this

- The residual stream of pre-norm transformers grows with the square root of depth, and during training, by design: up
  to a factor of 100 over the run it is info.
- Branches that start at zero (zero-initialised gains): not counted.
- Inputs that are off already: `DATA002`. Weights that are off: `WGHT005`. Fine-tuned models are not judged at the
  start.

## What to do

He or Xavier initialisation, a norm per block, residual branches scaled by 1/√(2L).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import outline, regime, stats
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Matrix, Run
from traindx.stats.persistence import finite_median, rising

LAYERS = ("Linear", "Conv", "LSTM", "GRU", "RNN", "Bilinear")


@rule(
    "ACTV004",
    needs={"act_rms/module": 1},
    says={
        "fades": "activations fade by {decades:.1f} powers of ten from {first_layer} to {last_layer}",
        "explodes": "activations grow by {decades:.1f} powers of ten from {first_layer} to {last_layer}",
        "grows": "outputs of {where} grew {ratio:.0f}× since step {first} and still grow",
    },
    fix={
        "": "Use He or Xavier initialisation, a norm per block, and residual branches scaled by 1/√(2L).",
        "grows": "Add a norm or weight decay, lower the learning rate by three.",
    },
    explains=("GRAD001", "LOSS010", "NUMR004"),
)
def signal_scale(
    run: Run,
    *,
    decades: float = 2.0,  # CATALOGUE: two decades end to end at the start
    growth: float = 10.0,  # CATALOGUE: ten times the value at step 100
    alarm: float = 100.0,  # [def] residual streams of long healthy runs reach ten
) -> Iterator[Evidence]:
    rms = run.matrix("act_rms/module")
    names = _layers(run, rms)
    if not regime.finetune(run):
        yield from _at_the_start(rms, names, decades)
    start = run.steps[0] if run.steps else 0
    early = rms.steps >= start + 100
    if np.count_nonzero(early) < 6:
        return
    for name in names:
        values = rms.values[early, rms.place[name]]
        base, late = finite_median(values[:2]), finite_median(values[-2:])
        if base > 0 and late > growth * base and late > 1.0 and rising(values[len(values) // 3 :]):
            steps = (int(rms.steps[early][0]), int(rms.steps[-1]))
            severity = Severity.WARNING if late > alarm * base else Severity.INFO
            yield Evidence(where=(name,), steps=steps, say="grows", severity=severity, facts={"ratio": late / base})


def _layers(run: Run, rms: Matrix) -> list[str]:
    """Weight layers in forward order, the last one aside: its scale is the loss's business."""
    kinds, head = outline.classes(run), outline.last_called(run)
    known = [n for n in rms.names if kinds.get(n, "").startswith(LAYERS)] if kinds else list(rms.names)
    return [n for n in known if n != head] if head else known[:-1]


def _at_the_start(rms: Matrix, names: list[str], decades: float) -> Iterator[Evidence]:
    first = rms.values[0, [rms.place[n] for n in names]]
    alive = np.isfinite(first) & (first > 0)
    if np.count_nonzero(alive) < 4:
        return
    level = np.log10(first[alive])
    depth = np.linspace(0.0, 1.0, len(level))
    change = stats.theil_sen(level, depth).value
    third = max(len(level) // 3, 1)
    ends = float(np.median(level[-third:]) - np.median(level[:third]))
    if abs(change) > decades and abs(ends) > 0.75 * decades and np.sign(ends) == np.sign(change):
        places = [n for n, ok in zip(names, alive, strict=True) if ok]
        step = int(rms.steps[0])
        yield Evidence(
            where=(places[-1] if change > 0 else places[0], *places[1:-1]),
            steps=(step, step),
            say="explodes" if change > 0 else "fades",
            facts={"decades": abs(change), "first_layer": places[0], "last_layer": places[-1]},
        )
