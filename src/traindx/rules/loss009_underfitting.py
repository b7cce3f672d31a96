"""Training and validation are both high and close together: the model does not fit.

## What it sees

A training loss that stays flat, a validation loss within 5 % of it, and a level that a reference says is too high.
References are your target and the level of a model that ignores its input. Without a reference it is only a hint: the
level may be the irreducible noise of the data. The same is true where the loss is still more than half of that of a
model that ignores its input.

## Why it matters

Training longer will not help: the model, its regularisation, its learning rate or a bug is the limit.

## What else looks like this

- Irreducible noise: label entropy, contrastive losses with a floor of ln of the batch.
- Heavy dropout, augmentation, mixup, label smoothing: they raise the training loss only while training.
- LOSS013, LOSS002: it never learned anything. LOSS011: the level is a constant with a name.

## What to do

Fit one batch (`traindx trial overfit train.py`): if that fails, it is a bug. If it passes, turn regularisers off for 200 steps,
try three times the learning rate, twice the width; and look at the data (DATA002, DATA004).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import course, regime
from traindx.course import chance
from traindx.finding import Confidence, Evidence, Unsure
from traindx.regime.curves import standstill
from traindx.rule import rule
from traindx.run import Run, Series

HALF_WAY = 0.5  # of the loss of an ignorant model: whoever stands above has learned little


@rule(
    "LOSS009",
    needs={"loss/train | loss/val": 8},
    says={
        "target": "training loss ({train:.4g}) and validation loss ({val:.4g}) are close together, and both are above your "
        "target {reference:.4g}",
        "chance": "training loss ({train:.4g}) and validation loss ({val:.4g}) are no better than a model that ignores its "
        "input ({reference:.4g})",
        "high": "training loss ({train:.4g}) and validation loss ({val:.4g}) have both stopped at {share:.0%} of the "
        "loss of a model that ignores its input: the model may be too weak, or the labels too noisy",
        "": "training loss ({train:.4g}) and validation loss ({val:.4g}) have both stopped falling, close together; "
        "if that is too high, the model is too weak",
    },
    fix="Check that the model can fit one batch (`traindx trial overfit train.py`). Then try less regularisation, three "
    "times the learning rate, or a wider model.",
    unless=("rl", "adversarial"),
    at="model",
)
def underfitting(
    run: Run,
    *,
    close: float = 0.05,  # CATALOGUE LOSS009
) -> Iterator[Evidence]:
    train, val = regime.curve(run), regime.curve(run, regime.VAL)
    if len(train) < 8 or len(val) < 3:
        raise Unsure("needs a training and a validation loss to compare", needs_steps=None)
    known = chance.chance(run)
    scale = known.loss if known else 0.0
    sure = standstill(train, eps=0.01 if len(train) >= 24 else 0.03, scale=scale)
    found_still = sure or standstill(train, eps=0.03, scale=scale)
    if found_still is None:
        return
    stands = found_still.level
    now = float(np.median(val.values[-min(3, len(val)) :]))
    gained = max(float(np.max(train.values)) - stands, 0.0)
    scale = gained if regime.may_be_negative(run) else abs(stands)
    if abs(now - stands) > close * scale:
        return
    span = (int(train.steps[0]), int(train.steps[-1]))
    found = _against_reference(run, train, stands, now, span)
    yield from (e for e in found if sure is not None or e.say in ("", "high"))


def _against_reference(run: Run, train: Series, stands: float, now: float, span: tuple[int, int]) -> Iterator[Evidence]:
    numbers = {"train": stands, "val": now}
    target = run.fact("budget.target")
    if isinstance(target, dict) and target.get("signal") in (regime.TRAIN, regime.VAL):
        value = target.get("value")
        if isinstance(value, int | float) and min(stands, now) > value:
            yield Evidence({**numbers, "reference": float(value)}, steps=span, say="target")
        return
    known = chance.chance(run)
    if known is not None:
        share = stands / known.loss
        if share >= 0.95 and not course.learned(run).yes:  # a metric may show more than the loss
            yield Evidence({**numbers, "reference": known.loss}, steps=span, say="chance")
        elif share > HALF_WAY:
            yield Evidence({**numbers, "share": share}, steps=span, say="high", confidence=Confidence.SUGGESTIVE)
        return
    first = float(np.median(train.values[: max(1, min(10, len(train) // 10))]))
    if regime.may_be_negative(run) or stands > 0.2 * abs(first):
        yield Evidence(numbers, steps=span, confidence=Confidence.SUGGESTIVE)
