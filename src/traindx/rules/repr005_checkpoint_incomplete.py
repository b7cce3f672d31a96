"""Checkpoints leave out something that a resume needs.

## What it sees

What `torch.save` wrote while an optimizer, a scheduler or a scaler was alive. A checkpoint that holds the step or the
optimizer is meant for resuming; one of the other states missing from it is a warning. Weights alone may be all that is
wanted: a remark.

## Why it matters

The loss is only visible at the resume: moments start at zero, the learning rate starts over, the loss jumps. By then the
state is gone.

## What else looks like this

- A file of weights for deployment, written in addition to real checkpoints: fine.
- REPR003: the jump has already happened.

## What to do

Save one dictionary: model, optimizer, scheduler, scaler, step, random states, position in the data. Try it once with
`traindx trial resume train.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

STATES = ("optimizer", "scheduler", "scaler")


@rule(
    "REPR005",
    subject="checkpoint",
    needs={"fact:checkpoint.missing | event:checkpoint": 1},
    says={
        "": "checkpoints hold part of the training state, but not the {where}",
        "weights": "checkpoints hold weights only: a resume would start {where} from nothing",
    },
    fix="Save {where} too, with the step and the random states; `traindx trial resume train.py` shows that it works.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    at="save",
)
def checkpoint_incomplete(
    run: Run,
    *,
    least_saves: int = 3,  # fewer are as likely the end of a stage as a place to resume from
) -> Iterator[Evidence]:
    missing = facts.strings(run, "checkpoint.missing")
    saved = run.events_of("checkpoint")
    if not missing:
        found = [{str(m) for m in s} for s in (e.data.get("missing") for e in saved) if isinstance(s, list | tuple)]
        missing = tuple(sorted(set.intersection(*found))) if found else ()
    lost = tuple(s for s in STATES if s in missing)
    if not lost:
        return
    span = (min(e.step for e in saved), max(e.step for e in saved)) if saved else None
    holds_more = "optimizer" not in missing or "step" not in missing
    if not holds_more:
        yield Evidence({"missing": list(lost)}, lost, span, "weights", Severity.INFO)
        return
    count = facts.number(run.fact("checkpoint.saves"), float(len(saved)))
    to_resume = count >= least_saves or _resumed(run)
    yield Evidence({"missing": list(lost)}, lost, span, "", Severity.WARNING if to_resume else Severity.INFO)


def _resumed(run: Run, alike: float = 1.1) -> bool:
    """Whether the run continued from a checkpoint: all keys fitted and the learning rate is the same before and after."""
    first = min((e.step for e in run.events_of("checkpoint")), default=None)
    for event in run.events_of("load"):
        before, after = regime.lr(run).at([event.step - 1, event.step + 1])
        same_rate = before > 0 and after > 0 and max(before / after, after / before) < alike
        if first is not None and event.step >= first and event.step > 0 and not event.data.get("missing") and same_rate:
            return True
    return False
