"""A tensor needed by backward is changed in place: something that backward needed was overwritten after the forward.

## What it sees

The autograd error about a variable "modified by an inplace operation", caught on its way out of `backward`. The
forward line that saved the tensor and the line that changed it are named where they could be found.

## Why it matters

The step cannot be computed. Written through `.data` the same mistake raises nothing and gives wrong gradients.

## What else looks like this

- A second backward through a freed graph, or a graph kept from an earlier step whose weights have since been updated.
  The changed tensor is then a weight, and the fix is to detach the state.

## What to do

Write `x = x + y` instead of `x += y`, `relu` without `inplace=True`, or `.clone()` before the change.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

MARK = "modified by an inplace operation"


@rule(
    "NUMR010",
    needs={"event:inplace_error | fact:exception": 1},
    says={
        "": "backward failed: a tensor it needed was changed in place",
        "lines": "backward failed: a tensor saved at {forward} was changed in place at {inplace}",
        "forward": "backward failed: a tensor saved at {forward} was changed in place later",
    },
    fix="Use the out-of-place form (x = x + y), drop inplace=True, or clone before the change.",
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
)
def inplace_change(run: Run) -> Iterator[Evidence]:
    events = run.events_of("inplace_error")
    if events:
        data = events[0].data
        forward, inplace = str(data.get("forward") or ""), str(data.get("inplace") or "")
        say = "lines" if forward and inplace else "forward" if forward else ""
        where = tuple(p for p in (inplace, forward) if p)
        step = events[0].step
        yield Evidence(where=where, steps=(step, step), say=say, facts={"forward": forward, "inplace": inplace})
        return
    error = facts.table(run, "exception")
    if MARK in str(error.get("message", "")):
        file, line = error.get("file"), error.get("line")
        last = (run.steps[1], run.steps[1]) if run.steps else None  # the error ended the program
        yield Evidence(where=(f"{file}:{line}",) if file and line else (), steps=last)
