"""Training and validation are both high and close together: the model does not fit.

## What it sees

A training loss that stays flat, a validation loss within 5 % of it, and a level that a reference says is too high.
References are your target and the level of a model that ignores its input. A metric of right answers (accuracy, F1,
mAP, IoU and the like) that stays near zero over many evaluations counts too. Without a reference it is only a hint: the
level may be the irreducible noise of the data.

## Why it matters

More of the same training will not help; the model, its regularisation, its learning rate or a bug holds it back.

## What else looks like this

- Irreducible noise: label entropy, contrastive losses with a floor of ln of the batch.
- Heavy dropout, augmentation, mixup, label smoothing: they raise the training loss only while training.
- LOSS002: it never learned anything. LOSS011: the level is a constant with a name.

## What to do

Fit one batch (`traindx trial overfit`): if that fails, it is a bug. If it passes, turn regularisers off for 200 steps, try
three times the learning rate, twice the width; and look at the data (DATA002, DATA004).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import plateau, progress
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats import Direction

# Metrics that count right answers, 0 … 1: their name, in lower case, holds one of these words. Recall and precision are
# half the truth and count only where no other is there.
WHOLE = ("acc", "map", "f1", "iou", "dice", "top1", "top5", "bleu", "auprc")
HALF = ("recall", "precision")


@rule(
    "LOSS009",
    needs={"loss/train | loss/val": 8},
    says={
        "target": "training ({train:.4g}) and validation ({val:.4g}) stand close together above the target {reference:.4g}",
        "chance": "training ({train:.4g}) and validation ({val:.4g}) are at the level of a model that ignores its input "
        "({reference:.4g})",
        "metric": "{metric} never exceeded {reference:.2g} in {evaluations} evaluations: nothing useful was learned",
        "": "training ({train:.4g}) and validation ({val:.4g}) stand still close together; if that is too high, the model "
        "does not fit",
    },
    fix="Fit one batch first (`traindx trial overfit`); then less regularisation, three times the learning rate, a wider "
    "model.",
    unless=("rl", "adversarial"),
)
def underfitting(
    run: Run,
    *,
    close: float = 0.05,  # CATALOGUE LOSS009
    useless: float = 0.02,  # a metric of right answers below this is no answer
    many: int = 50,  # evaluations before a useless metric is a warning
    few: int = 12,
) -> Iterator[Evidence]:
    useless_metric = _useless(run, useless, few)
    if useless_metric is not None:
        name, best, count, span = useless_metric
        severity = Severity.WARNING if count >= many else Severity.INFO
        yield Evidence({"metric": name, "reference": best, "evaluations": count}, (name,), span, "metric", severity)
        return
    train, val = regime.curve(run), regime.curve(run, regime.VAL)
    if len(train) < 8 or len(val) < 3:
        raise Unsure("needs a training and a validation loss to compare", needs_steps=None)
    stands = _stands(run, train)
    if stands is None:
        return
    now = float(np.median(val.values[-min(3, len(val)) :]))
    gained = max(float(np.max(train.values)) - stands, 0.0)
    scale = gained if regime.may_be_negative(run) else abs(stands)
    if abs(now - stands) > close * scale:
        return
    span = (int(train.steps[0]), int(train.steps[-1]))
    yield from _against_reference(run, train, stands, now, gained, span)


def _stands(run: Run, train: Series) -> float | None:
    """The level at which training stands still: flat by the equivalence test, or never moved; None while it moves."""
    flat = plateau(train, eps=0.01 if len(train) >= 24 else 0.03, scale=regime.chance_level(run) or 0.0)
    if flat is not None:
        return flat.level
    done = progress(train)
    if done is not None and abs(done.gain) < 2 and done.trend.direction not in (Direction.FALLING, Direction.RISING):
        return done.now
    return None


def _against_reference(
    run: Run, train: Series, stands: float, now: float, gained: float, span: tuple[int, int]
) -> Iterator[Evidence]:
    numbers = {"train": stands, "val": now}
    target = run.fact("budget.target")
    if isinstance(target, dict) and target.get("signal") in (regime.TRAIN, regime.VAL):
        value = target.get("value")
        if isinstance(value, int | float) and min(stands, now) > value:
            yield Evidence({**numbers, "reference": float(value)}, steps=span, say="target")
        return
    chance = regime.chance_level(run)
    prior = regime.floors(run).get("prior")
    lowest = min([v for v in (chance, prior) if v is not None], default=None)
    if lowest is not None:
        if stands >= 0.95 * lowest and not run.fact("loss.weighted"):
            yield Evidence({**numbers, "reference": lowest}, steps=span, say="chance")
        return
    first = float(np.median(train.values[: max(1, min(10, len(train) // 10))]))
    if regime.may_be_negative(run) or stands > 0.2 * abs(first):
        yield Evidence(numbers, steps=span, confidence=Confidence.SUGGESTIVE)


def _useless(run: Run, limit: float, few: int) -> tuple[str, float, int, tuple[int, int]] | None:
    """A metric of right answers that was evaluated often and never rose above almost nothing."""
    for words in (WHOLE, HALF):
        found = [
            (name, stats.quantiles(s.values, 0.9)[0], len(s), (int(s.steps[0]), int(s.steps[-1])))
            for name, s in _metrics(run, words)
            if len(s) >= few and np.min(s.values) >= 0 and np.max(s.values) <= 1
        ]
        if found:
            best = max(found, key=lambda f: f[1])
            return best if best[1] < limit else None
    return None


def _metrics(run: Run, words: tuple[str, ...]) -> Iterator[tuple[str, Series]]:
    for name, signal in run.matching("metric/val/*").items():
        if isinstance(signal, Series) and any(w in name.removeprefix("metric/val/").lower() for w in words):
            yield name, signal.finite()
