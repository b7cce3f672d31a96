"""The loss falls while the share of right answers stays put.

## What it sees

Over at least the last quarter of the run the loss falls (a significant slope) while accuracy stays within one point, at
a level below 97 %. Both are tested; flat is not just a failed test. Training curves are looked at, and validation
curves where they have enough points.

## Why it matters

The model grows surer of answers it already gives. What the loss still gains is not what you are after: easy examples pay
for it, or smoothing and imbalance hide the hard ones.

## What else looks like this

- EVAL005: the validation *loss* rises while accuracy holds.
- The mirror case, accuracy rising at a flat loss: usually fine.
- Accuracy near its ceiling: there is nothing left to decide.
- Few samples: accuracy then has few levels, and flatness cannot be shown; the rule stays unsure.

## What to do

Look at the errors per class and at the hardest examples. Focal loss or class weights move effort to them; for a binary task
move the threshold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run
from traindx.stats import Direction


@rule(
    "EVAL010",
    needs={"loss/train": 100, "accuracy/train | metric/train/*": 100},
    says="over the last {count} records the loss fell by {fell:.1%} of its way while accuracy stayed at {accuracy:.1%} "
    "(±1 point)",
    fix="Look at the errors per class and the hardest examples; focal loss (γ = 2) or class weights move effort to them.",
    severity=Severity.INFO,
    unless=("rl", "adversarial"),
)
def confidence_without_decisions(
    run: Run,
    *,
    points: float = 0.01,  # accuracy may drift by this and count as flat
    ceiling: float = 0.97,
    least: int = 100,
) -> Iterator[Evidence]:
    loss, accuracy = regime.curve(run), facts.accuracy(run, "train")
    if len(loss) < least or len(accuracy) < least:
        raise Unsure(f"needs {least} records of loss and accuracy")
    down = stats.trend_verdict(loss.values)
    if down.direction is not Direction.FALLING:
        return
    since = int(loss.steps[-down.window])
    part = accuracy.between(since).values
    level = float(np.median(part)) if len(part) else 1.0
    if level > ceiling or len(part) < least // 4:
        return
    flat = stats.trend_verdict(part, len(part), scale=1.0, eps=points, grow=False)
    if flat.direction is Direction.UNSURE:
        raise Unsure("accuracy is too noisy to call it flat", resolution=flat.resolution, needs_steps=flat.needs)
    if flat.direction is Direction.FLAT:
        yield Evidence(
            {"count": down.window, "fell": -down.change, "accuracy": level}, ("accuracy/train",), (since, int(loss.steps[-1]))
        )
