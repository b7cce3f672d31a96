"""Checkpoints leave out something that a resume needs.

## What it sees

What `torch.save` wrote while an optimizer, a scheduler or a scaler was alive. A checkpoint that holds the step or the
optimizer is meant for resuming; one of the other states missing from it is a warning. Weights alone may be all that is
wanted: a remark.

## Why it matters

The loss is only visible at the resume: moments start at zero, the learning rate starts over, the loss jumps. By then the
state is gone.

## What else looks like this

- A file of weights for deployment, written beside real checkpoints: fine.
- REPR003: the jump has already happened.

## What to do

Save one dictionary: model, optimizer, scheduler, scaler, step, random states, position in the data. Try it once with
`traindx trial resume`.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

STATES = ("optimizer", "scheduler", "scaler")


@rule(
    "REPR005",
    needs={"fact:checkpoint.missing | event:checkpoint": 1},
    says={
        "": "checkpoints hold part of the training state, but not the {where}",
        "weights": "checkpoints hold weights only: a resume would start {where} from nothing",
    },
    fix="Save {where} too, with the step and the random states; `traindx trial resume` shows that it works.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def checkpoint_incomplete(run: Run) -> Iterator[Evidence]:
    missing = facts.strings(run, "checkpoint.missing")
    if not missing:
        saved = [e.data.get("missing") for e in run.events_of("checkpoint")]
        found = [{str(m) for m in s} for s in saved if isinstance(s, list | tuple)]
        missing = tuple(sorted(set.intersection(*found))) if found else ()
    lost = tuple(s for s in STATES if s in missing)
    if not lost:
        return
    meant_for_resume = "optimizer" not in missing or "step" not in missing
    steps = [e.step for e in run.events_of("checkpoint")]
    span = (min(steps), max(steps)) if steps else None
    if meant_for_resume:
        yield Evidence({"missing": list(lost)}, lost, span)
    else:
        yield Evidence({"missing": list(lost)}, lost, span, "weights", Severity.INFO)
