"""The run has had its time and has not learned.

## What it sees

The judgement that every verdict rests on; `traindx diagnose --why-healthy` shows it. It compares metrics with the score of a
constant answer, losses with the loss of a constant answer, and both with where they began. It needs at least 8 evaluations or
100 recorded losses, and a run that has ended as far as the record tells. It reports a run that learned at most 5 % of what can
be learned, or one whose training loss ends far above where it began.

## Why it matters

A finished run that knows nothing is never healthy, whether or not another condition finds the reason.

## What else looks like this

- A long warm-up, or a task that stays flat for long at first: more epochs show it. A run that is still running is not judged.
- An agent's loss and those of two players are not meant to fall. They are judged by return or other metrics, or not at all.
- A loss that starts at its floor because the weights were trained before: log a metric to tell the two apart.

## What to do

Run `traindx trial overfit train.py`. If the model cannot fit one batch, look at model, loss and loop. If it can, look at the
learning rate (`traindx trial lr-range train.py`) and the labels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import course, regime
from traindx.course import State
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "LOSS013",
    needs={"loss/train | loss/val | accuracy/val | accuracy/train": 3},
    says={
        "": "it has not learned: {reason}",
        "worse": "it ends worse than it was: {reason}",
        "unstable": "nothing shows that it learned: {reason}",
        "burst": "its loss blew up, and it has not learned: {reason}",
    },
    fix="Run `traindx trial overfit train.py`. If the model cannot fit one batch, check model, loss and loop; if it can, "
    "check the learning rate and the labels. Then start again.",
    severity=Severity.CRITICAL,
)
def not_learned(run: Run) -> Iterator[Evidence]:
    found = course.learned(run)
    if found.state is State.TOO_EARLY:
        raise Unsure("too early to say whether it learns", needs_steps=100)
    if found.state is State.CANNOT_KNOW and found.lost and (found.settled or not found.ended.may_go_on):
        yield Evidence({"reason": found.lost}, steps=run.steps, say="unstable", severity=Severity.WARNING)
    if not found.no:
        return
    if found.ended.may_go_on and not found.settled:
        raise Unsure(f"nothing learned so far; {found.ended.why}", needs_steps=100)
    losses = regime.curve(run, whole=True).values
    burst = len(losses) > 0 and float(np.max(losses)) > 10 * max(abs(float(np.median(losses))), abs(float(losses[-1])))
    values = {"reason": found.reasons[0], "state": str(found.state), "low": found.low, "high": found.high}
    yield Evidence(values, steps=run.steps, say="worse" if found.state is State.GOT_WORSE else "burst" if burst else "")
