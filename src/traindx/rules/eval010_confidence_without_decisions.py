"""The loss falls while accuracy does not move.

## What it sees

Over at least the last quarter of the run the loss falls (a significant slope) while accuracy stays within one point,
at a level below 97 %. Both are tested; flat is not just a failed test. Where that shows nothing, the first and last
of at least eight evaluations are compared. The loss lost more than 15 % of its height, and accuracy gained almost
nothing of what was missing. The mirror case, accuracy that rises at a flat loss, is reported as well.

## Why it matters

The model grows surer of answers it already gives. What the loss still gains is not what you are after: easy examples pay
for it, or smoothing and imbalance hide the hard ones.

## What else looks like this

- EVAL005: the validation *loss* rises while accuracy holds.
- The mirror case: the decisions get better and not surer, which is usually fine.
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
from traindx.regime.curves import noise_of
from traindx.rule import rule
from traindx.run import Floats, Ints, Run
from traindx.stats import Direction

FEW = 8  # evaluations from which the first and the last can be compared
PARTS = {"val": "validation", "train": "training"}


@rule(
    "EVAL010",
    needs={"loss/train | loss/val": 8, "accuracy/train | metric/train/* | accuracy/val | metric/val/*": 8},
    says={
        "": "over the last {count} records the loss made {fell:.1%} of its progress while accuracy stayed at "
        "{accuracy:.1%} (±1 point)",
        "never": "the {what} loss fell by {fell:.0%} over {count} evaluations while accuracy stayed at {accuracy:.1%}",
        "mirror": "over the last {count} evaluations accuracy rose to {accuracy:.1%} while the {what} loss was flat: "
        "answers get better without getting surer",
    },
    fix={
        "": "Look at the errors per class and the hardest examples; focal loss (γ = 2) or class weights put more "
        "weight on them.",
        "mirror": "Let it run; judge it by its accuracy.",
    },
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
    late = _lately(run, points, ceiling, least)
    found = late if isinstance(late, Evidence) else _evaluations(run, ceiling)
    if found is not None:
        yield found
    elif isinstance(late, Unsure):
        raise late


def _lately(run: Run, points: float, ceiling: float, least: int) -> Evidence | Unsure | None:
    """The loss of every step against the accuracy of every step, over the newest part."""
    loss, accuracy = regime.curve(run), facts.accuracy(run, "train")
    if len(loss) < least or len(accuracy) < least:
        return (
            None if any(len(_evaluated(run, part)) >= FEW for part in PARTS) else Unsure(f"needs {FEW} evaluations with both")
        )
    down = stats.trend_verdict(loss.values)
    since = int(loss.steps[-down.window])
    part = accuracy.between(since).values
    level = float(np.median(part)) if len(part) else 1.0
    if down.direction is not Direction.FALLING or level > ceiling or len(part) < least // 4:
        return None
    flat = stats.trend_verdict(part, len(part), scale=1.0, eps=points, grow=False)
    if flat.direction is Direction.UNSURE:
        return Unsure("accuracy is too noisy to call it flat", resolution=flat.resolution, needs_steps=flat.needs)
    if flat.direction is not Direction.FLAT:
        return None
    numbers = {"count": down.window, "fell": -down.change, "accuracy": level}
    return Evidence(numbers, ("accuracy/train",), (since, int(loss.steps[-1])))


def _evaluations(run: Run, ceiling: float, much: float = 0.15) -> Evidence | None:
    """The first evaluations against the last: what the loss lost of its height, what accuracy won of what was missing."""
    for part, what in PARTS.items():
        loss, right, at = regime.curve(run, f"loss/{part}"), facts.accuracy(run, part), _evaluated(run, part)
        if len(at) < FEW or regime.may_be_negative(run):
            continue
        for of, say in ((len(at), "never"), (3 * len(at) // 4, "mirror")):
            y, shares = loss.at(at[-of:]), right.at(at[-of:])
            down, up = _moved(y), _moved(shares)
            start, missing = float(np.median(y[:3])), 1 - float(np.median(shares[:3]))
            if start <= 0:
                continue  # nothing that could fall
            fell, won = -down[0] / start, up[0] / max(missing, 1 - ceiling)
            unsure = down[1] / start, up[1] / max(missing, 1 - ceiling)
            won_only = say == "mirror" and won - unsure[1] > much and abs(fell) + unsure[0] < 0.3 * won
            fell_only = say == "never" and fell - unsure[0] > much and won + unsure[1] < 0.3 * fell and missing > 1 - ceiling
            if won_only or fell_only:
                numbers = {"count": of, "fell": fell, "what": what, "accuracy": float(np.mean(shares[-(of // 3) :]))}
                return Evidence(numbers, (f"accuracy/{part}",), (int(at[-of]), int(at[-1])), say)
    return None


def _evaluated(run: Run, part: str) -> Ints:
    """The steps with both a loss and an accuracy."""
    return np.intersect1d(regime.curve(run, f"loss/{part}").steps, facts.accuracy(run, part).steps)


def _moved(values: Floats) -> tuple[float, float]:
    """From the first few to the last third: by how much, and twice its standard error."""
    head, tail = max(2, len(values) // 8), len(values) // 3
    change = float(np.mean(values[-tail:]) - np.mean(values[:head]))
    return change, 2 * noise_of(values) * float(np.sqrt(1 / head + 1 / tail))
