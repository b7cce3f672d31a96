"""The validation loss rises while the training loss keeps falling.

## What it sees

The evaluations since the smoothed minimum of the validation loss. It fires after three evaluations in a row. The rise
exceeds four times the noise of an evaluation and 1 % of the minimum, the evaluations since then keep rising (Kendall
above 0.5), and the training loss fell meanwhile. With four to seven evaluations it asks for an unbroken rise instead
and stays a remark unless the rise is plain. Evaluations that jump too much for this count too, when there are seven or
more since the best. Half of them must stand 30 % above the best mean of three, three quarters 15 %, and they must tend
upwards (Kendall, 5 %). It is a warning when a third of all that had been gained is lost again, or the loss is half as
high again as at its minimum. A training loss that has run away from a validation loss that no longer improves is reported
as a *gap*, a remark. Prechelt's GL, PQ and UP are given as numbers. Where a log holds accuracies and no validation loss,
the test looks at errors.

## Why it matters

Later checkpoints are worse than the one at the minimum, and every further epoch memorises.

## What else looks like this

- A tiny validation set: its noise is measured and asked to be exceeded.
- A warm restart: the training loss rises too, so nothing fires.
- EVAL005: the loss rises because the model grows over-confident; accuracy still rises. Then this is only a remark.
- DATA008, ACTV008, EVAL009: the gap is there from the first evaluation and does not grow.
- Double descent: the rise may pass; what is reported is the rise, not a fate.

## What to do

Stop, and keep the checkpoint of the minimum. Then: weight decay 1e-2 … 1e-1 (AdamW), dropout .1–.3, augmentation, fewer
epochs, a smaller model, more data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.course.metrics import metrics
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import noise_of
from traindx.rule import rule
from traindx.run import Floats, Run, Series
from traindx.stats import Overfit


@rule(
    "LOSS008",
    subject="evaluation",
    needs={"loss/val | accuracy/val": 4, "loss/train | accuracy/train": 2},
    says={
        "": "the validation loss rose from {best:.4g} (step {best_step}) to about {now:.3g} (+{rise:.0%}) while training fell "
        "to about {train:.3g}",
        "confident": "the validation loss rose from {best:.4g} (step {best_step}) to about {now:.3g} (+{rise:.0%}) while the "
        "metric holds or still rises",
        "gap": "the training loss is about {train:.3g}; the validation loss is about {now:.3g} and hardly improves any more "
        "(best {best:.4g} at step {best_step})",
        "accuracy": "validation accuracy fell from {best:.1%} (step {best_step}) to {now:.1%} while training accuracy rose "
        "to {train:.1%}",
        "passed": "the validation loss rose by {rise:.0%} after step {best_step} and came down again",
    },
    fix={
        "": "Stop and keep the checkpoint of step {best_step}; then regularise, augment or train for fewer epochs.",
        "confident": "Keep the checkpoint with the best metric. If you use the probabilities, fit a temperature or train with "
        "label smoothing.",
        "gap": "To close the gap, use more data, augmentation or regularisation; training longer will not help.",
        "passed": "Nothing to do; keep the best checkpoint.",
    },
    explains=("LOSS004",),  # that training still falls is part of it, and no advice to continue
    unless=("rl", "adversarial"),
)
def overfitting(
    run: Run,
    *,
    much: float = 0.5,  # of the minimum, or
    lost: float = 1 / 3,  # of what had been gained: below both a proven rise is a remark
    gap: float = 0.15,  # of what training gained
) -> Iterator[Evidence]:
    val = regime.curve(run, regime.VAL)
    if not len(val):
        yield from _by_accuracy(run)
        return
    train = regime.losses_at(run, val.steps)
    known = np.isfinite(train)
    val, train = val.where(known), train[known]
    if len(val) < 4:
        raise Unsure(f"{len(val)} evaluations with a training loss are too few", needs_steps=_more(val, 4))
    val, train = _blocked(val, train)
    found = stats.overfit_na(val.values, train, negative=regime.may_be_negative(run))
    passed = found.fired is not None and not _still_up(found)
    if passed and found.fired is not None:
        yield _passed(val, train, found, found.fired)
    sure = Confidence.STRONG if found.fired is not None else _short(val, train) if len(val) < 8 else _jumping(val, train)
    sure = None if passed else sure
    if sure is not None:
        yield _rise(run, val, train, found, sure, much, lost)
        return
    wide = _gap(run, val, train, found, gap)
    if wide is not None:
        yield wide
    elif len(val) < 8 and not passed:
        raise Unsure(f"{len(val)} evaluations do not prove a rise", needs_steps=_more(val, 8))


def _by_accuracy(run: Run, least: float = 0.02) -> Iterator[Evidence]:
    """The same test on errors, for a log that holds accuracies and no validation loss."""
    ours, theirs = facts.accuracy(run, "val"), facts.accuracy(run, "train")
    if not len(theirs):
        raise Blind("needs a validation loss, or accuracies of both splits", "loss/val")
    errors = 1 - theirs.at(ours.steps)
    known = np.isfinite(errors)
    val, train = _blocked(Series(ours.steps[known], 1 - ours.values[known]), errors[known])
    if len(val) < 8:
        raise Unsure(f"{len(val)} accuracies of both splits do not prove a fall", needs_steps=_more(val, 8))
    found = stats.overfit_na(val.values, train)
    best, now = int(np.argmin(stats.smooth3(val.values))), float(np.median(val.values[-3:]))
    low = float(stats.smooth3(val.values)[best])
    if found.fired is None or not _still_up(found) or now - low < least:
        return
    numbers = {"best": 1 - low, "best_step": int(val.steps[best]), "now": 1 - now, "train": 1 - float(np.median(train[-3:]))}
    yield Evidence(numbers, steps=(int(val.steps[best]), int(val.steps[-1])), say="accuracy", severity=Severity.WARNING)


def _blocked(val: Series, train: Floats, most: int = 60) -> tuple[Series, Floats]:
    """Hundreds of evaluations as 40 means: the test is made for a curve, not for its jitter."""
    if len(val) <= most:
        return val, train
    edges = np.linspace(0, len(val), 41).astype(np.int64)
    ends = val.steps[edges[1:] - 1]
    means = [np.add.reduceat(part, edges[:-1]) / np.diff(edges) for part in (val.values, train)]
    return Series(ends, means[0]), means[1]


def _more(val: Series, wanted: int) -> int:
    spacing = int(np.median(np.diff(val.steps))) if len(val) > 1 else 1
    return max(1, (wanted - len(val)) * spacing)


def _still_up(found: Overfit) -> bool:
    return found.rise > max(0.0, 2 * found.sigma * math.sqrt(2 / 3))


def _passed(val: Series, train: Floats, found: Overfit, fired: int) -> Evidence:
    """The rise was proven and is gone: a bump, a second descent, a lowered learning rate."""
    best = int(np.argmin(val.values[: fired + 1]))
    numbers = _numbers(val, train, found, best, val.last)
    low = float(val.values[best])
    numbers["rise"] = (float(np.max(val.values[best:])) - low) / max(abs(low), 1e-12)
    return Evidence(numbers, steps=(int(val.steps[best]), int(val.steps[fired])), say="passed", severity=Severity.INFO)


def _short(val: Series, train: Floats) -> Confidence | None:
    """Four to seven evaluations: an unbroken rise over the last three or more, training falling meanwhile."""
    y = val.values
    best = int(np.argmin(y))
    after = y[best:]
    climbs = len(after) - 1
    unbroken = climbs >= 2 and bool(np.all(np.diff(after) > 0))
    # one dip may be noise when the rise dwarfs it
    dwarfed = (
        climbs >= 3 and stats.kendall(after) > 0.6 and after[-1] - after[0] > 3 * float(np.max(-np.diff(after), initial=0.0))
    )
    fell = float(train[best] - train[-1]) > 0.02 * abs(float(train[best]))
    rise = float(after[-1] - after[0])
    if not (unbroken or dwarfed) or not fell or rise < 0.02 * abs(float(after[0])):
        return None
    return Confidence.STRONG if climbs >= 3 and rise > 0.1 * abs(float(after[0])) else Confidence.SUGGESTIVE


def _jumping(val: Series, train: Floats, far: float = 1.3) -> Confidence | None:
    """Evaluations that jump too much to prove a steady rise, and yet stand far above the best while training falls."""
    best = int(np.argmin(val.values))
    after, n = val.values[best:], len(val.values) - best
    low = float(np.min(stats.smooth3(val.values)))  # the best of many that jump is a lucky one
    if n < 7 or min(low, val.values[best]) <= 0 or train[-1] > 0.9 * train[best]:
        return None
    rising = 3 * stats.kendall(after) * math.sqrt(n * (n - 1)) / math.sqrt(2 * (2 * n + 5))  # against no order at all
    above = np.quantile(after[1:], [0.25, 0.5]) / low
    return Confidence.STRONG if rising > 1.64 and above[1] > far and above[0] > 1 + (far - 1) / 2 else None


def _rise(run: Run, val: Series, train: Floats, found: Overfit, sure: Confidence, much: float, lost: float) -> Evidence:
    best = int(np.argmin(val.values))
    top = float(np.max(val.values[: best + 1]))
    now = float(np.median(val.values[-min(3, len(val) - best) :])) if len(val) >= 8 else val.last
    rise = now - float(val.values[best])
    numbers = _numbers(val, train, found, best, now)
    span = (int(val.steps[best]), int(val.steps[-1]))
    low = float(val.values[best])
    gained = max(top - low, _train_gain(run))  # the first evaluation may come when most is learned
    high = not regime.may_be_negative(run) and rise >= max(much * low, 0.05 * (top - low))
    matters = high or rise >= lost * gained
    say = "confident" if _accuracy_rises(run, int(val.steps[best])) else ""
    severity = Severity.WARNING if matters and not say else Severity.INFO
    return Evidence(numbers, steps=span, say=say, severity=severity, confidence=sure)


def _train_gain(run: Run) -> float:
    curve = regime.curve(run).values
    return float(np.max(curve[: max(1, len(curve) // 10)]) - np.min(curve)) if len(curve) else 0.0


def _numbers(val: Series, train: Floats, found: Overfit, best: int, now: float) -> dict[str, object]:
    lowest = int(np.argmin(val.values))
    best = lowest if abs(lowest - best) <= 2 else best  # smoothing may have moved it: a page knows one best evaluation
    low = float(val.values[best])
    return {
        "best": low,
        "best_step": int(val.steps[best]),
        "now": now,
        "rise": (now - low) / max(abs(low), 1e-12),
        "train": float(np.median(train[-min(3, len(train)) :])),
        "noise": found.sigma,
        "concordance": found.concordance,
        "gl": found.gl,
        "pq": found.pq,
        "up": found.up,
        "evaluations": len(val),
    }


def _accuracy_rises(run: Run, since: int) -> bool:
    """A metric of validation went up since the minimum by more than twice its own noise, or is at its best."""
    metric = next((m for m in metrics(run) if m.part == "val"), None)
    if metric is None or len(at := metric.series.between(lo=since)) < 4:
        return False
    found = metric.series
    half = len(at) // 2
    noise = stats.noise_sigma(found.values)
    noise = noise if math.isfinite(noise) else 0.0
    up = float(np.mean(at.values[half:]) - np.mean(at.values[:half]))
    best = float(np.max(stats.smooth3(found.values)))
    hardly = max(0.005, noise, 0.05 * (best - metric.ignorant[1]))  # a twentieth of what it knows
    stays = best - float(np.mean(at.values[-3:])) < hardly and best > float(found.values[0]) + 0.02
    return stays or up > max(0.005, 2 * noise * math.sqrt(2 / half))


def _gap(run: Run, val: Series, train: Floats, found: Overfit, least: float) -> Evidence | None:
    """Training has run away from a validation loss that no longer improves."""
    curve = regime.curve(run)
    head = max(1, min(10, len(curve) // 10))
    first = float(np.median(curve.values[:head]))
    gained = first - float(np.median(train[-3:]))
    if gained < max(5 * noise_of(curve.values), 0.05 * abs(first) if not regime.may_be_negative(run) else 0.0):
        return None
    now = float(np.median(val.values[-min(3, len(val)) :]))
    apart = now - float(np.median(train[-min(3, len(train)) :]))
    best = int(np.argmin(val.values))
    third = max(1, len(val) // 3)
    before, since = val.values[:-third], val.values[-third:]
    won, little = float(np.min(before) - np.min(since)), 0.01 * abs(float(np.min(before)))
    ahead = best == len(val) - 1 and (won > little or len(val) < 8)  # the last is the best, by far or of a few
    stalled = won < max(little, 0.1 * apart) and not ahead
    fell = float(np.median(train[: max(1, len(train) // 3)]) - np.median(train[-third:]))
    noise = found.sigma if math.isfinite(found.sigma) else 0.0
    times = apart > 0.04 * gained and now > 3 * (now - apart) > 0  # small next to the gain, but validation is a multiple
    if not (gained > 0 and (apart > least * gained or times) and apart > 3 * noise and stalled and fell > 0):
        return None
    if float(np.median(train[-3:]) - np.min(stats.smooth3(train))) > 0.1 * gained:
        return None  # training is on its way up as well
    if _explained_by_offset(val, train, apart):
        return None
    numbers = {**_numbers(val, train, found, best, now), "gap": apart, "share": apart / gained}
    return Evidence(numbers, steps=(int(val.steps[best]), int(val.steps[-1])), say="gap", severity=Severity.INFO)


def _explained_by_offset(val: Series, train: Floats, apart: float) -> bool:
    """The same distance from the first evaluation on, with training hardly lower since: a mismatch, not a growing gap."""
    first = float(val.values[0] - train[0])
    return first > 0.8 * apart and float(train[0] - train[-1]) < 0.2 * apart
