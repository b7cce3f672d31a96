"""Training falls, and validation has not moved since the first evaluation.

## What it sees

At least six evaluations stay within their own noise of the first ones, and within a tenth of what training fell since
then. The training loss fell clearly *after* the first evaluation. If most of the training fall had happened before the
first evaluation, the model may simply have learned what it could by then: a remark. Or, where accuracies are known:
that of validation never left its first level and is less than half of training's, and the loss was never below its
first. Where training's accuracy was not logged, its cross entropy bounds it: the mean probability of the right class is
at least exp(-loss). That the loss is one is taken from validation itself, whose first loss must be what guessing at its
accuracy costs.

## Why it matters

What is learned must show somewhere. Either the evaluation looks at something else (stale weights, another preparation,
wrong mode), or what is learned is only memory.

## What else looks like this

Check in this order:

- EVAL001: equal to the last digit.
- EVAL009 and ACTV008: eval mode is the problem; training batches are bad in it too.
- DATA008: validation is prepared differently. DATA003: labels are named differently in validation.
- DATA004: labels are noise; training falls late and slowly.
- LOSS008: validation had a dip and came back.

## What to do

Evaluate the current weights by hand on one *training* batch in eval mode. Bad too: mode or BatchNorm. Good: compare how the
two sets are prepared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.course import metrics
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "EVAL007",
    subject="evaluation",
    needs={"loss/val": 6, "loss/train": 20},
    says={
        "": "validation stayed at {level:.4g} (±{scatter:.1g}) over {count} evaluations while training fell from "
        "{before:.4g} to {now:.4g}",
        "unmoved": "validation stayed at {level:.4g} (±{scatter:.1g}) in {count} evaluations, the level at which training "
        "began, while training fell from {before:.4g} to {now:.4g}",
        "never": "validation accuracy stayed at {level:.1%} over {count} evaluations and its loss was never below the first, "
        "while training rose to {now:.1%}",
        "late": "validation stayed at {level:.4g} over {count} evaluations; most of the training fall was before the "
        "first of them",
    },
    fix="Evaluate one training batch in eval mode. If it is bad, suspect the mode or BatchNorm; if it is good, "
    "the two sets are prepared differently.",
    severity=Severity.WARNING,
    explains=("EVAL002", "LOSS008", "EVAL005"),
    unless=("rl", "adversarial"),
    at="evaluate guard|given",
)
def val_flat_from_start(
    run: Run,
    *,
    part: float = 0.1,  # of the training fall that validation may move and still count as flat
    deviations: float = 3.0,
    early: float = 0.5,  # share of the training fall that must come after the first evaluation
) -> Iterator[Evidence]:
    val, train = regime.curve(run, "loss/val"), regime.curve(run)
    if len(val) < 6 or len(train) < 20:
        raise Unsure("needs six evaluations and 20 training losses")
    never = _never_better(run, val)
    if never is not None:
        yield never
        return
    near = regime.losses_at(run, val.steps)
    start = float(np.median(train.values[: max(3, len(train) // 200)]))
    # a mean over the first epoch says what was before its end, the next one what was after it
    before, now = float(near[1 if regime.logged_by_epoch(run) else 0]), float(np.median(near[-3:]))
    fell, total = before - now, start - now
    noise = stats.noise_sigma(val.values)
    noise = noise if math.isfinite(noise) else 0.0
    # Training must have fallen by more than either curve scatters, and by a visible part of its level.
    t_noise = stats.mad(np.diff(train.values)) / math.sqrt(2)
    if not fell > max(4 * noise, 2 * t_noise, 0.1 * abs(before)):
        return
    smooth = stats.smooth3(val.values)[2:]
    moved = float(max(abs(smooth.min() - smooth[0]), abs(smooth.max() - smooth[0]), abs(val.values[0] - smooth[0])))
    if moved > max(part * fell, 0.0) or abs(float(smooth[-1] - smooth[0])) > max(
        deviations * noise, 0.02 * abs(float(smooth[0]))
    ):
        return
    if metrics.improved(run):
        return  # what is learned shows there
    values = {"level": float(np.median(val.values)), "scatter": noise, "count": len(val), "before": before, "now": now}
    mostly_after = fell >= early * total
    steps = (int(val.steps[0]), int(val.steps[-1]))
    # a model that memorises grows sure of wrong answers: its validation loss rises and does not stay where nothing is known
    say = "late" if not mostly_after else "unmoved" if abs(values["level"] - before) < part * fell else ""
    yield Evidence(values, ("loss/val",), steps, say, Severity.WARNING if mostly_after else Severity.INFO)


def _never_better(run: Run, val: Series) -> Evidence | None:
    """Accuracy tells it even where the loss rises: what is learned helps validation in nothing, from the first look on."""
    ours = facts.accuracy(run)
    if len(ours) < 6 or float(np.min(val.values)) < 0.98 * float(val.values[0]):
        return None
    third = max(2, len(ours) // 3)
    noise = stats.noise_sigma(ours.values)
    room = max(0.02, 3 * (noise if math.isfinite(noise) else 0.0) * math.sqrt(2 / third))
    first, level = float(np.mean(ours.values[:third])), float(np.mean(ours.values[-third:]))
    theirs = facts.accuracy(run, "train")
    sure = theirs.values if len(theirs) >= 6 else _at_least(run, val, first)
    if len(sure) < 6:
        return None
    tenth = max(2, len(sure) // 10)
    learned = float(np.median(sure[-tenth:]))
    rose = learned - float(np.median(sure[:tenth]))
    if level - first > room or rose < 0.1 or level > 0.5 * learned:
        return None
    values = {"level": level, "count": len(ours), "now": learned}
    return Evidence(values, ("accuracy/val",), (int(ours.steps[0]), int(ours.steps[-1])), "never", Severity.WARNING)


def _at_least(run: Run, val: Series, level: float, near: float = 0.1) -> Floats:
    """A lower bound of the training accuracy's expectation by Jensen's inequality, or nothing if the loss may not be one."""
    if not 0 < level < 1 or abs(float(np.median(val.values[:3])) + math.log(level)) > -near * math.log(level):
        return np.empty(0)
    return np.exp(-np.maximum(regime.losses_at(run, val.steps), 0.0))
