"""The loss has not moved since the start.

## What it sees

The level at the end against the level at the start, in units of the noise of one record. They differ by fewer than two
deviations, and a robust test finds no slope (or a drop below 3 %). At least 200 updates must have passed since the
learning rate reached a tenth of its peak. It is a warning when the level has a meaning, such as ln C, the entropy of
the label prior or the variance of the target. An accuracy that never changes, or a loss that repeats to the digit,
counts too. Without a reference it is a remark, because a run that had converged before its first record looks the same.

## Why it matters

Every further step is wasted until the cause is found: nothing is being learned.

## What else looks like this

- A long warm-up: steps with less than a tenth of the peak rate are not counted.
- Fine-tuning that starts at its floor: the level lies far below chance.
- Tasks with a long silent phase (parity, grokking): gradients are small but not zero and one batch can be fitted.
- LOSS003: flat only *after* a good drop.

## What to do

Find out why. No parameter may move (WIRE001, WIRE016, NUMR005), or gradients are zero (GRAD004, ACTV001). Steps may be
far too large at first (OPTM002) or too small (OPTM001), or the labels carry nothing (DATA004). Then restart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import course, regime, stats
from traindx.course import chance
from traindx.course.metrics import metrics
from traindx.finding import Confidence, Evidence, Unsure
from traindx.regime.curves import Progress, progress
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats import Direction

UNCOUNTED = 30  # records from which a flat curve is worth a hint, where nobody says whether they are steps or epochs


@rule(
    "LOSS002",
    needs={"loss/train | loss/val": 3},
    says={
        "chance": "the {what} stayed at {now:.4g} over {updates} steps, the level of guessing ({chance:.4g})",
        "frozen": "the {what} is exactly {now:.6g} in all {records} records",
        "stuck": "the {what} stayed at {now:.4g} over {updates} steps and accuracy never moved from {accuracy:.4g}",
        "": "the {what} has hardly changed: {first_level:.4g} at the start, {now:.4g} after {updates} steps",
    },
    fix="Check that weights change at all, that gradients are not zero and that the labels belong to the inputs; then restart.",
    unless=("rl", "adversarial"),
)
def flat_from_start(
    run: Run,
    *,
    steps: int = 200,  # CATALOGUE LOSS002
    deviations: float = 2.0,
    relative: float = 0.03,  # a smaller drop than this is not learning, however significant
    near_chance: float = 0.9,
) -> Iterator[Evidence]:
    name = regime.TRAIN if len(regime.curve(run)) >= 3 else regime.VAL
    series = _counted(run, regime.curve(run, name))
    done = progress(series)
    if done is None or series.steps[-1] == series.steps[0]:
        raise Unsure("too few records after the warm-up", needs_steps=steps)
    clearly = _flat(done, deviations, relative)
    if clearly and done.relative > 10 * relative and done.points >= 50:
        raise Unsure("it fell by a good part, which its noise could also do", needs_steps=2 * steps)
    if not clearly and not _barely(done, relative):
        return
    updates = int(series.steps[-1] - series.steps[0])
    enough = updates >= steps or run.fact("step_unit") == "epoch" or regime.logged_by_epoch(run, name)
    what = "training loss" if name == regime.TRAIN else "validation loss"
    numbers = {
        "what": what,
        "first_level": done.first,
        "now": done.now,
        "updates": updates,
        "records": done.points,
        "noise": done.sigma,
    }
    if not enough and run.fact("step_unit") == "record" and clearly and done.points >= UNCOUNTED:
        yield Evidence(numbers, steps=(int(series.steps[0]), int(series.steps[-1])), confidence=Confidence.SUGGESTIVE)
        return
    if not enough or regime.in_warmup(run):
        raise Unsure(f"flat so far, but only {updates} steps were made at a useful rate", needs_steps=max(1, steps - updates))
    if clearly:
        _resolved(done, relative)
    found = _judged(run, series, done, numbers, near_chance) if clearly else _hint(run, series, numbers)
    if found is not None:
        yield found


def _counted(run: Run, series: Series) -> Series:
    """The records from where the learning rate had reached a tenth of its peak."""
    rate = regime.lr(run)
    peak = regime.peak_lr(run)
    if not len(rate) or not peak > 0:
        return series
    first = int(rate.steps[int(np.argmax(rate.values >= 0.1 * peak))])
    return series.between(lo=first)


def _flat(done: Progress, deviations: float, relative: float) -> bool:
    if abs(done.drop) <= 1e-4 * abs(done.first) and done.sigma <= 1e-4 * abs(done.first) and done.points < 50:
        return True  # a coarse log that repeats itself
    if done.sigma == 0:
        return False
    quiet = abs(done.gain) < deviations and (done.first - done.best) < deviations * done.sigma
    slow = done.trend.direction is not Direction.FALLING or done.relative < relative
    return quiet and slow and done.trend.direction is not Direction.RISING


def _barely(done: Progress, relative: float) -> bool:
    """It moved, by less than 3 % and hardly more than its noise: worth a hint where no reference says better."""
    return 0 <= done.relative < relative and done.gain < 5 and done.first - done.best < 5 * done.sigma


def _hint(run: Run, series: Series, numbers: dict[str, object]) -> Evidence | None:
    if regime.chance_level(run) is not None or regime.finetune(run):
        return None
    return Evidence(numbers, steps=(int(series.steps[0]), int(series.steps[-1])), confidence=Confidence.SUGGESTIVE)


def _resolved(done: Progress, relative: float) -> None:
    """A flat answer needs a test that could have seen learning: the largest drop it cannot exclude must be small."""
    hidden = -done.trend.lo * done.trend.scale if np.isfinite(done.trend.lo) else np.inf
    if done.sigma > 0 and hidden > max(2 * relative * abs(done.first), done.sigma):
        raise Unsure(
            f"flat, but a drop of {hidden:.3g} would not show in this noise",
            resolution=float(min(hidden / abs(done.first), 1e9)) if done.first else None,
            needs_steps=max(1, 2 * done.points),
        )


def _judged(run: Run, series: Series, done: Progress, numbers: dict[str, object], near: float) -> Evidence | None:
    span = (int(series.steps[0]), int(series.steps[-1]))
    if course.learned(run).yes:
        return None
    found = _chance(run, done, float(np.median(series.values)))
    if found is not None:
        level, sure = found
        if done.now < near * level or done.below(level):
            return None  # it had learned before the first record, or in the first steps
        return Evidence({**numbers, "chance": level}, steps=span, say="chance", confidence=sure)
    if done.points >= 8 and np.ptp(series.values) <= 1e-6 * abs(done.now) and done.now != 0:
        return Evidence(numbers, steps=span, say="frozen")
    right = next((m.series for m in metrics(run) if chance.same_answer(m.series.values) is not None), None)
    if right is not None:
        return Evidence({**numbers, "accuracy": right.last}, steps=span, say="stuck")
    return Evidence(numbers, steps=span, confidence=Confidence.SUGGESTIVE)


def _chance(run: Run, done: Progress, level: float) -> tuple[float, Confidence] | None:
    """The level of ignorance: known from the facts, or ln K for an integer that fits too well to be an accident."""
    known, tuned = chance.chance(run), regime.finetune(run)
    if known is not None and (run.fact("loss.kind") != "mse" or (not tuned and abs(done.now / known.loss - 1) < 0.1)):
        return known.loss, Confidence.STRONG
    guess = stats.integer_chance(level, 1.2533 * done.sigma / done.points**0.5)
    if guess is None or tuned:
        return None
    return float(np.log(guess[0])), Confidence.STRONG if guess[1] < 0.05 and done.points >= 8 else Confidence.SUGGESTIVE
