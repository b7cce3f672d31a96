"""The batch size changed and the learning rate did not follow.

## What it sees

The samples per update change lastingly by three times or more (another batch size, accumulation or number of processes
after a resume). The learning rate does not follow: linearly for SGD, with the square root for Adam. A warning when the
loss rose or its band widened after it, else a remark.

## Why it matters

Larger batches at the old rate waste samples; smaller ones at the old rate shake.

## What else looks like this

- The last, smaller batch of an epoch: not lasting.
- Beyond the critical batch size neither rule of thumb holds.

## What to do

k times the batch: SGD k times the rate with warm-up; Adam √k times, β₂ → β₂^k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "OPTM011",
    needs={"batch/size": 40, "lr": 5},
    says="from step {first} on the batch is {factor:.2g}× as large, but the learning rate changed by "
    "{lr_factor:.2g}× (it should change by {expected:.2g}×)",
    fix="Multiply the learning rate by {needed:.2g} and warm up again.",
    severity=Severity.INFO,
    at="optimizer",
)
def batch_lr_mismatch(
    run: Run,
    *,
    change: float = 3.0,  # CATALOGUE OPTM011
    off: float = 1.7,  # how far the rate may be from the rule of thumb
) -> Iterator[Evidence]:
    size = run.series("batch/size").finite()
    if (phase := regime.phase_start(run)) is not None:
        size = size.between(lo=phase)
    if len(size) < 40:
        raise Unsure("too few batches", needs_steps=40)
    cuts = stats.change_points(np.log2(np.maximum(size.values, 1.0)), penalty=50.0, least=10)
    rate = regime.lr(run)
    for cut in cuts:
        before, after = float(np.median(size.values[:cut][-50:])), float(np.median(size.values[cut:][:50]))
        factor = after / max(before, 1e-9)
        if max(factor, 1 / max(factor, 1e-9)) < change:
            continue
        step = int(size.steps[cut])
        then, now = (float(v) for v in rate.at([size.steps[max(0, cut - 5)], size.steps[min(len(size) - 1, cut + 5)]]))
        expected = math.sqrt(factor) if regime.adam_like(run) is not False else factor
        got = now / then if then > 0 else math.nan
        if not math.isfinite(got) or abs(math.log(got / expected)) < math.log(off):
            continue
        numbers = {"factor": factor, "lr_factor": got, "expected": expected, "needed": expected / got}
        hurt = _hurt(regime.curve(run), step, factor)
        yield Evidence(numbers, steps=(step, int(size.steps[-1])), severity=Severity.WARNING if hurt else None)


def _hurt(loss: Series, step: int, factor: float) -> bool:
    """The loss rose, or its band is twice as wide as fewer samples to a batch make it."""
    before, after = loss.between(hi=step - 1).values[-100:], loss.between(lo=step).values[:100]
    if len(before) < 20 or len(after) < 20:
        return False
    band = stats.mad(before)
    return float(np.median(after)) > float(np.median(before)) + 2 * band or stats.mad(after) > 2 * band / math.sqrt(
        min(factor, 1)
    )
