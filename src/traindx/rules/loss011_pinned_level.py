"""The loss stays at a suspicious level: the loss stays at a number with a known meaning, or at an impossible one.

## What it sees

The level at which the curve stays flat, by an equivalence test, is compared with constants:

- ln C and the entropy of the label prior: the input is ignored;
- ln(e+C−1)−1: softmax is applied twice;
- the entropy of smoothed labels: perfect;
- ln 2, the variance of the target (predicts the mean), and ln of the batch size (contrastive, uniform). The tolerance
  is three standard errors of the level, at least half a percent, and the chance of an accident is given. In imported
  logs the number of classes is unknown. There ln of a small integer counts, as a hint unless it fits too well to be an
  accident. Where they hold an accuracy, a loss of ln(e+C−1) minus the accuracy throughout shows that softmax is applied
  twice, long before the floor. Impossible values are facts: a cross-entropy below zero or below the entropy of its
  smoothed labels, a loss of exactly 0 from the start or at once.

## Why it matters

The constant names the fault: a model that outputs the prior has not seen its input, or its labels carry nothing.

## What else looks like this

- A coincidence: see the stated chance.
- A loss that reached its floor honestly: smoothed labels have a floor above zero, and sitting on it means the fit is perfect.
- Hinge and triplet losses do reach exactly 0, step by step.

## What to do

At ln C or the prior: see ACTV005, DATA004, GRAD004. At the softmax-twice floor: drop the softmax before the loss (WIRE006).
At the target variance: check shapes (WIRE008). At exactly 0: all labels ignored (TUNE002), or the logging is broken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import Plateau, standstill
from traindx.rule import rule
from traindx.run import Run, Series

MEANS = {
    "uniform": "the loss of guessing among C classes (ln C)",
    "prior": "the entropy of the label shares, which ignoring the input costs",
    "softmax-twice": "the floor of softmax applied twice",
    "undecided": "ln 2, undecided between two answers",
    "smoothing": "the entropy of the smoothed labels: a perfect fit",
    "target-variance": "the variance of the target, which always predicting its mean costs",
    "contrastive-uniform": "ln of the batch size: all pairs look alike",
    "contrastive-uniform-pairs": "ln(2B−1): all pairs look alike",
}
HARMLESS = ("smoothing",)
MOST_CLASSES = 12.0  # ln of it, 160,000: a larger number is no cross-entropy


@rule(
    "LOSS011",
    needs={"loss/train | loss/val": 4},
    says={
        "": "the {what} stays at {level:.4g}, close to {floor:.4g}: {meaning}",
        "perfect": "the {what} stays at {level:.4g}, close to {floor:.4g}: {meaning}",
        "integer": "the {what} stays at {level:.4g}; a model that guesses among {classes} classes has ln {classes} = "
        "{floor:.4g}",
        "squashed": "{what} and accuracy add up to {level:.4g} (ln(e + {classes} − 1) = {floor:.4g}): {loss:.4g} at an "
        "accuracy of {accuracy:.1%}, as when softmax is applied before a cross-entropy over {classes} classes",
        "zero": "the {what} is exactly 0 from step {first} on ({count} records)",
        "negative": "the {what} is negative ({level:.4g}), which a cross-entropy alone cannot be",
        "below": "the {what} is {level:.4g}, below {floor:.4g}, the least that its smoothed labels allow: that is impossible",
    },
    fix={
        "": "The model ignores its input: check that gradients reach it, that the labels belong to the inputs, and the "
        "loss's arguments.",
        "perfect": "Nothing to do: with label smoothing the loss cannot go lower.",
        "squashed": "Give the loss logits: drop the softmax at the end of the model.",
        "zero": "Check that labels are not all ignored and that the logged number is the loss.",
        "negative": "Check the arguments of the loss: probabilities, weights or targets out of range.",
        "below": "Check that the loss and its logged value use the same smoothing.",
    },
    unless=("rl", "adversarial"),
    at="loss target",
)
def pinned_level(
    run: Run,
    *,
    steps: int = 100,  # CATALOGUE LOSS011: the match must hold that long
    accident: float = 0.05,  # a match more likely than this by chance is a hint
) -> Iterator[Evidence]:
    name = regime.TRAIN if len(regime.curve(run)) >= 4 else regime.VAL
    series = regime.curve(run, name)
    what = "training loss" if name == regime.TRAIN else "validation loss"
    impossible = _impossible(run, series, what)
    if impossible is not None:
        yield impossible
        return
    squashed = _squashed(run, name, series, what)
    if squashed is not None:
        yield squashed
        return
    eps = 0.01 if len(series) >= 24 else 0.03
    stands = standstill(series, eps=eps, least=4, scale=regime.chance_level(run) or 0.0)
    if stands is None:
        return
    span = (int(series.steps[stands.start]), int(series.steps[-1]))
    by_epoch = run.fact("step_unit") == "epoch" or regime.logged_by_epoch(run, name)
    if span[1] - span[0] < steps and not by_epoch:
        raise Unsure(f"has lasted only {span[1] - span[0]} steps", needs_steps=steps - (span[1] - span[0]))
    found = _named(run, stands, what, span, accident) or _integer(run, stands, series, what, span, accident)
    if found is not None:
        yield found


def _named(run: Run, stands: Plateau, what: str, span: tuple[int, int], accident: float) -> Evidence | None:
    known = regime.target_variance(run)  # a level that was measured has an error of its own
    error = float(np.hypot(stands.se, known[1] if known is not None else 0.0))
    right = next((a.values for part in ("train", "val") if len(a := facts.accuracy(run, part)) >= 4), np.ones(1))
    wrong = float(np.median(right[-max(1, len(right) // 4) :])) < 0.8  # whoever is at that floor answers nearly all right
    floors = {k: v for k, v in regime.floors(run).items() if k != "softmax-twice" or not wrong}
    matches = stats.floor_match(stands.level, error, floors)
    if not matches:
        return None
    best = matches[0]
    numbers = {"what": what, "level": stands.level, "floor": best.value, "meaning": MEANS.get(best.name, best.name)}
    numbers |= {"name": best.name, "chance": best.chance}
    if best.name in HARMLESS:
        return Evidence(numbers, steps=span, say="perfect", severity=Severity.INFO)
    sure = Confidence.STRONG if best.chance < 4 * accident else Confidence.SUGGESTIVE
    return Evidence(numbers, steps=span, confidence=sure)


def _integer(run: Run, stands: Plateau, series: Series, what: str, span: tuple[int, int], accident: float) -> Evidence | None:
    """Without a known number of classes: ln of an integer, of a curve that starts near it too or fits it very well."""
    if run.fact("loss.kind") is not None or regime.may_be_negative(run):
        return None
    guess = stats.integer_chance(stands.level, stands.se)
    if guess is None:
        return None
    classes, chance = guess
    numbers = {"what": what, "level": stands.level, "classes": classes, "floor": float(np.log(classes)), "chance": chance}
    sure = chance < accident and len(series) >= 8 and stands.start == 0
    return Evidence(numbers, steps=span, say="integer", confidence=Confidence.STRONG if sure else Confidence.SUGGESTIVE)


def _squashed(
    run: Run,
    name: str,
    loss: Series,
    what: str,
    *,
    least: int = 8,
    right: float = 0.9,  # accuracy by now: a plain cross-entropy is far below the sum then, whatever the number of classes
    off: float = 0.03,  # of the sum; seen .00 to .02 (CATALOGUE 2.9)
) -> Evidence | None:
    """Without a known loss: loss + accuracy = ln(e+C−1), C > 2, over a part of the way in which both have moved."""
    accuracy = facts.accuracy(run, name.removeprefix("loss/"))
    if run.fact("loss.kind") is not None or regime.may_be_negative(run):
        return None
    steps, here, there = np.intersect1d(loss.steps, accuracy.steps, return_indices=True)
    if len(steps) < least:
        return None
    y, a = loss.values[here], accuracy.values[there]
    late = slice(-max(3, len(steps) // 4), None)
    level, now = float(np.median(y[late] + a[late])), float(np.median(a[late]))
    if not right <= now <= 1 or level > MOST_CLASSES:
        return None
    classes = round(float(np.exp(level) - np.e + 1))
    floor = float(np.log(np.e + max(classes, 1) - 1))
    if classes < 3 or abs(level - floor) > off:
        return None
    if float(np.ptp(a)) < 0.05:
        return None
    # one falls as the other rises; a plain cross-entropy falls by much more, with smoothed labels too
    slope = float(np.polyfit(a, y, 1)[0])
    if not -1.25 < slope < -0.8 or float(np.corrcoef(a, y)[0, 1]) > -0.97:
        return None
    values = {"what": what, "level": level, "classes": classes, "floor": floor}
    values |= {"loss": float(np.median(y[late])), "accuracy": now}
    return Evidence(values, (), (int(steps[0]), int(steps[-1])), "squashed")


def _impossible(run: Run, series: Series, what: str) -> Evidence | None:
    y = series.values
    if not len(y):
        return None
    zero = _sudden_zero(series)
    if zero is not None:
        facts = {"what": what, "count": len(y) - zero}
        return Evidence(facts, steps=(int(series.steps[zero]), int(series.steps[-1])), say="zero")
    plain = run.fact("loss.kind") == "ce" and regime.plain_loss(run)
    low = int(np.argmin(y))
    at = (int(series.steps[low]), int(series.steps[low]))
    if plain and y[low] < -1e-6 and np.count_nonzero(y < -1e-6) >= 3:
        found = {"what": what, "level": float(y[low])}  # something else may have been added to it, unseen
        return Evidence(found, steps=at, say="negative", confidence=Confidence.SUGGESTIVE)
    floor = regime.floors(run).get("smoothing") if plain else None
    if floor is not None and what == "training loss" and np.count_nonzero(y < 0.98 * floor) >= 3:
        return Evidence({"what": what, "level": float(y[low]), "floor": floor}, steps=at, say="below")
    return None


def _sudden_zero(series: Series) -> int | None:
    """The first of at least three trailing exact zeros that the curve did not approach; None otherwise."""
    y = series.values
    other = np.flatnonzero(y != 0.0)
    first = int(other[-1]) + 1 if len(other) else 0
    if len(y) - first < 3:
        return None
    before = np.abs(y[max(0, first - 20) : first])
    start = float(np.median(np.abs(y[: max(1, min(10, first))]))) if first else 0.0
    approached = first >= 3 and float(np.median(before[-3:])) < 0.05 * start
    return None if approached else first
