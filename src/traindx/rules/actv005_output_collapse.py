"""Outputs hardly depend on the input: the model answers the same to every input.

## What it sees

The spread of what goes into the loss, over samples, against its value at the start: below `ratio` in three of the last
five looks. Outputs that vary over samples by rounding only. Or one class predicted for every sample of every late batch
although the batches hold three classes or more and none of them rules. In both cases only while the loss is no better
than knowing the class frequencies.

## Why it matters

Nothing of the input reaches the output any more. This is how a learning rate that was far too high ends: perfectly
calm, at chance level. Such a run does not recover.

## What else looks like this

- A run that has hardly begun: the spread is where it started, not a hundredth of it; a favourite class that was there
  from the start does not count.
- A regression onto targets that hardly vary: the spread is held against theirs.
- Batches that hold one class each (sorted data, `DATA005`), a class that makes up nearly everything (`DATA011`): not
  reported.
- GANs and reinforcement learning have rules of their own.

## What to do

Look at the first steps: too high a learning rate is the usual cause. Start again with a tenth of it. Otherwise:
constant inputs, zero initialisation, a cut graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import breakdown, course, regime
from traindx.finding import Evidence, Severity
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, k_of_m


@rule(
    "ACTV005",
    needs={"output_std | output_top_share": 5},
    says={
        "": "outputs hardly differ between inputs: their spread is {ratio:.2g} of the initial one",
        "class": "one class is predicted for every sample, though the batches hold {classes} classes",
        "ignored": "outputs do not depend on the input: from sample to sample they vary by {ratio:.1g} of their size",
        "lost": "the layers learn, but since the first step outputs hardly depend on the input (they vary by {ratio:.1g} "
        "of their size): it gets lost inside the network",
    },
    fix={
        "": "Start again with a tenth of the learning rate; check for constant inputs, zero initialisation and a cut graph.",
        "lost": "Use gates or residual connections, normalisation, larger initial weights or shorter sequences; check "
        "masks and reductions.",
        "ignored": "Find what blocks the input: an inverted mask, zero weights, a wrong reduction, constant inputs.",
    },
    severity=Severity.CRITICAL,
    explains=("LOSS002", "LOSS003", "LOSS009", "LOSS011", "EVAL004", "EVAL007", "GRAD001", "GRAD004", "OPTM001"),
    unless=("adversarial", "rl"),
)
def output_collapse(
    run: Run,
    *,
    ratio: float = 0.01,  # [x] exactly 0 in collapsed runs, 36-4500 in learning ones
    patience: int = 8,  # [def] late looks that must all agree on one class
    apart: int = 50,  # [def] steps that few looks must span
    rounding: float = 1e-5,  # float32 sums of a few layers differ by less than this from batch to batch position
) -> Iterator[Evidence]:
    broken = breakdown.first_break(run)
    if broken is not None:
        run = run.between(hi=broken.step - 1)  # NaN outputs are no answer at all
    if course.learned(run).yes or regime.finetune(run):
        return
    spread, top = run.series("output_std").finite(), run.series("output_top_share").finite()
    base = finite_median(spread.values[:3])
    if 5 <= len(spread) < 20 and base > 0 and spread.steps[-1] - spread.steps[0] >= apart:
        gone = spread.values[-3:] < 0.1 * ratio * base  # few looks, as on a busy machine: only what leaves no doubt
        if np.all(gone) and not _targets_vary_little(run, spread.values):
            seen = {"ratio": float(np.median(spread.values[-3:])) / base}
            yield Evidence(steps=(int(spread.steps[-3]), int(spread.steps[-1])), facts=seen)
        return
    if len(spread) >= 20 and not _targets_vary_little(run, spread.values):
        low = spread.values < ratio * base
        if base > 0 and k_of_m(low):
            since = int(spread.steps[np.flatnonzero(~low)[-1] + 1]) if np.any(~low) else int(spread.steps[0])
            seen = {"ratio": float(np.median(spread.values[-5:])) / base}
            yield Evidence(steps=(since, int(spread.steps[-1])), facts=seen)
            return
        size = run.series("logit_maxabs").finite().at(spread.steps)
        share = spread.values[size > 0] / size[size > 0]
        if len(share) >= 20 and np.all(share[-10:] < rounding):
            at = (int(spread.steps[0]), int(spread.steps[-1]))
            say = "lost" if np.all(share < rounding) and _layers_move(run) else "ignored"
            yield Evidence(steps=at, say=say, facts={"ratio": float(np.median(share[-10:]))})
            return
    classes, late = _classes_in_batches(run), max(patience, len(top) // 4)
    began = finite_median(top.values[:3])  # an untrained network often has one favourite: that is no collapse
    long = len(top) >= 2 * late and top.steps[-1] - top.steps[0] >= 100
    if long and classes >= 3 and began < 0.9 and np.all(top.values[-late:] >= 0.999):
        yield Evidence(steps=(int(top.steps[-late]), int(top.steps[-1])), say="class", facts={"classes": classes})


def _layers_move(run: Run, healthy: float = 1e-4) -> bool:
    """Whether most weights are updated as in any training (2.11): neither the rate nor a cut graph keeps the input out."""
    table = params.update_ratios(run)
    names = params.weights(run, table.names)
    values = params.columns(table, names) if names else np.empty((0, 0))
    return bool(np.isfinite(values).any()) and float(np.nanmedian(values)) > healthy


def _targets_vary_little(run: Run, spread: np.ndarray) -> bool:
    target = finite_median(run.series("batch/label_std").values)
    return math.isfinite(target) and float(np.median(spread[-5:])) >= 0.05 * target


def _classes_in_batches(run: Run) -> int:
    """Classes that a usual late batch holds; 0 when unknown, or when one class makes up most of everything."""
    labels = run.matrix("batch/labels/class")
    if not len(labels):
        return 0
    late = np.nan_to_num(labels.values[-50:])
    share = late.sum(axis=0) / max(late.sum(), 1.0)
    return int(np.median((late > 0).sum(axis=1))) if share.max() < 0.8 else 0
