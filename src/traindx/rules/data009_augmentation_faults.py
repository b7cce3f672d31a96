"""Augmentation is set up wrongly: it is applied where it should not be, is not random, or is too strong for the task.

## What it sees

It looks for:

- validation samples that came with different content in two evaluations (the set is read in the same order);
- randomly augmented training samples that came back unchanged in the second epoch;
- a `__getitem__` of the training set that seeds a generator with a constant for every sample;
- a loss on augmented samples more than twice that on the raw ones, where a trial measured it.

## Why it matters

Random validation measures a different set every time, and the noise hides what the model does. Augmentation that repeats
adds no data. Augmentation that is too strong, or breaks the label, puts a floor under the training loss.

## What else looks like this

- EVAL002: the validation set is small; its content is the same every time.
- EVAL009: dropout is active in validation; the inputs are the same.
- Test-time augmentation by intent; a cached, precomputed augmentation by intent.

## What to do

Give validation its own transforms without random parts. Seed generators per worker and per call, never once in the data
set. Halve the strength of the augmentation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA009",
    needs={"fact:data.val_random | fact:data.aug_repeats | fact:data.fixed_seed | fact:trial.augmentation": 1},
    says={
        "validation": "validation samples change from one evaluation to the next: random transforms are applied to them",
        "frozen": "{repeats:.0f} of {checked:.0f} augmented samples came back unchanged in the second epoch: the "
        "augmentation is not random",
        "alike": "`__getitem__` seeds its generator with {seed} for every sample: all samples in all epochs get the same "
        "random numbers",
        "strong": "the loss on augmented samples is {ratio:.1f} times the loss on the original ones",
    },
    fix={
        "validation": "Use transforms without random parts for validation.",
        "frozen": "Draw the random numbers in `__getitem__` from a generator seeded per worker and epoch.",
        "alike": "Make the generator once (seeded per worker), or seed it with the index and the epoch.",
        "strong": "Halve the strength of the augmentation, and check that labels stay true.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("EVAL002", "LOSS008", "EVAL005"),
    at={"": "dataset", "validation": "val_loader"},
)
def augmentation_faults(
    run: Run,
    *,
    repeats: float = 0.5,  # share of checked samples; chance repeats of continuous transforms are nil
    least_checked: int = 10,
    strong: float = 2.0,  # CATALOGUE DATA009
) -> Iterator[Evidence]:
    if run.fact("data.val_random"):
        yield Evidence(say="validation")
    seen = facts.table(run, "data.aug_repeats")
    again, checked = facts.number(seen.get("repeats"), 0.0), facts.number(seen.get("checked"), 0.0)
    if checked >= least_checked and again / checked > repeats:
        yield Evidence({"repeats": again, "checked": checked}, say="frozen")
    if math.isfinite(seed := facts.number(run.fact("data.fixed_seed"))):
        yield Evidence({"seed": f"{seed:.0f}"}, say="alike")
    trial = facts.table(run, "trial.augmentation")
    augmented, raw = facts.number(trial.get("augmented")), facts.number(trial.get("raw"))
    if raw > 0 and augmented / raw > strong:
        yield Evidence({"ratio": augmented / raw}, say="strong", severity=Severity.INFO, confidence=Confidence.STRONG)
