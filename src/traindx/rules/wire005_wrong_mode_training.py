"""Training in eval mode: updates were made from forwards with dropout off and BatchNorm frozen.

## What it sees

Training forwards with `model.training` False in at least `least` recorded steps (`loop/eval_mode`). It is critical if
it is left over from an evaluation (the run began in train mode) and the model has BatchNorm. With dropout only, or from
the first step of a fine-tuning, it is a warning. In a model with neither, or with both in frozen modules only, it
changes nothing and is info. Sub-modules that stay in eval mode after an evaluation (`loop/eval_submodules` rises from
zero and stays) are a warning.

## Why it matters

BatchNorm then normalises with statistics that no longer follow the weights, and dropout does not regularise. The
usual cause is `model.eval()` in the validation function and `model.train()` outside the epoch loop.

## What else looks like this

- Frozen BatchNorm by intent (detectors, fine-tuning): some modules in eval mode from the first step on. A new head on a
  frozen body may train with all of the model in eval mode.
- BatchNorm statistics that are off for another reason: `ACTV008`.
- Validation in train mode: `EVAL009`.

## What to do

Call `model.train()` at the top of every epoch, after each evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats.persistence import last_stretch


@rule(
    "WIRE005",
    needs={"loop/eval_mode | loop/eval_submodules": 5},
    says={
        "": "the model trains in eval mode from step {first} on ({share:.0%} of the recorded steps): {effect}",
        "leftover": "after an evaluation the model stayed in eval mode: {share:.0%} of the steps from step {first} on: "
        "{effect}",
        "submodule": "{count} sub-modules went to eval mode at step {first} and stayed there: {where}",
    },
    fix="Call model.train() at the start of every epoch, after each evaluation.",
    confidence=Confidence.EXACT,
    explains=("ACTV008", "LOSS008", "EVAL007", "EVAL006"),
    at="eval",
)
def wrong_mode_training(run: Run, *, least: int = 5) -> Iterator[Evidence]:
    # CATALOGUE: five steps; one or two may be a look at the model between epochs.
    mode = run.series("loop/eval_mode").finite()
    asleep = mode.values > 0
    if np.count_nonzero(asleep) >= least:
        yield _whole_model(run, mode)
        return
    begun = max([e.step for e in run.events_of("retrained")] + list(regime.phase_starts(run)), default=0)
    parts = run.series("loop/eval_submodules").finite().between(lo=begun)
    if len(parts) <= least or parts.values[0] > 0:
        return  # asleep from the first step of a training: frozen on purpose
    stretch = last_stretch(parts.values > 0)
    if stretch >= least:
        first = int(parts.steps[len(parts) - stretch])
        frozen = facts.strings(run, "model.frozen_modules")
        names = facts.strings(run, "model.eval_in_training")
        if names and all(outline.inside(n, frozen) for n in names):
            return  # what does not learn may keep its statistics
        count = int(parts.values[-1])
        yield Evidence(where=names, steps=(first, int(parts.steps[-1])), say="submodule", facts={"count": count})


def _whole_model(run: Run, mode: Series) -> Evidence:
    asleep = mode.values > 0
    first = int(np.argmax(asleep))
    leftover = first > 0
    effect, severity = _effect(run)
    if severity is Severity.CRITICAL and not leftover and regime.finetune(run):
        severity = Severity.WARNING  # some fine-tune in eval mode on purpose, to keep the statistics
    return Evidence(
        steps=(int(mode.steps[first]), int(mode.steps[asleep][-1])),
        say="leftover" if leftover else "",
        severity=severity,
        facts={"share": float(np.mean(asleep[first:])), "effect": effect},
    )


def _effect(run: Run) -> tuple[str, Severity]:
    if not facts.rows(run, "model.outline"):
        return "dropout is off and BatchNorm does not follow", Severity.WARNING
    if _trained(run, "BatchNorm", "SyncBatchNorm"):
        return "BatchNorm does not follow the weights", Severity.CRITICAL
    # The last four carry dropout inside, out of sight.
    drops = ("Dropout", "DropPath", "StochasticDepth", "RReLU", "LSTM", "GRU", "MultiheadAttention", "Transformer")
    if _trained(run, *drops):
        return "dropout is off", Severity.WARNING
    where = " in what is trained" if facts.strings(run, "model.frozen_modules") else ""
    return f"without BatchNorm or dropout{where} it changes nothing", Severity.INFO


def _trained(run: Run, *kinds: str) -> bool:
    """Whether a layer of such a kind stands outside the frozen modules."""
    frozen = facts.strings(run, "model.frozen_modules")
    return any(
        any(kind in str(row.get("class", "")) for kind in kinds)
        and not any(f"{row.get('name')}.".startswith(f"{module}.") for module in frozen)
        for row in facts.rows(run, "model.outline")
    )
