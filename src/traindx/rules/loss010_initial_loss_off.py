"""The first loss is not what an untrained model should have.

## What it sees

The first training losses against theory: ln C for cross-entropy over C classes, ln 2 for binary, the mean square of the
target for a regression. The excess e tells the spread of the logits, √(2e). More than 1 nat is a remark, and a warning
when it is above 3 or when the loss is still above chance a hundred steps later. A first loss below .8 ln C is a remark
too: leak, wrong C, a mean over ignored targets. A first loss that is a whole multiple of ln C is a sum where a mean was
meant. A regression on targets far from unit size is a warning if it has not come near them after 200 updates. It is
also one if it was no better than their mean for half of a thousand updates. The outputs of an untrained model are of
size one, and every update moves them only a little.

## Why it matters

Confidently wrong outputs at the start give huge first gradients; the first steps are spent on undoing the initialisation, and
units die on the way.

## What else looks like this

- Pretrained weights: the first loss is low by right. Muted when weights were loaded.
- Label smoothing, class weights, auxiliary losses shift the expected level: weighted and summed losses are not judged.
- A first record that is a mean over many steps: not judged.
- DATA002: inputs far too large give the same excess.

## What to do

Scale the last layer's initial weights by .1 (or zero them), set its bias to the log of the class prior, normalise the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from traindx import regime
from traindx.course import chance
from traindx.finding import Blind, Confidence, Evidence, Muted, Severity
from traindx.regime.curves import ends, level_of
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "LOSS010",
    needs={"loss/train": 1, "fact:loss.kind": 1},
    says={
        "high": "the first loss is {initial:.4g}; an untrained model should start at {expected:.4g}. The logits are "
        "spread too widely ({spread:.2g})",
        "large": "the first loss is {initial:.4g}, {ratio:,.0f} times what predicting zero would give ({expected:.4g})",
        "summed": "the first loss is {initial:.4g}, {ratio:.0f} times the expected {expected:.4g}: it is summed over "
        "{ratio:.0f} samples instead of averaged",
        "targets": "the targets are large ({size:.3g}, standard deviation {deviation:.3g}) and an untrained model starts "
        "near 0; after {updates} updates the loss is {now:.3g}, and it began at {initial:.3g}",
        "tiny": "the targets ({size:.2g}) are far smaller than the outputs; after {updates} updates the loss is "
        "{now:.3g}, {ratio:.2g} times that of answering zero",
        "low": "the first loss is {initial:.4g}, less than the {expected:.4g} of an untrained model",
    },
    fix={
        "": "Multiply the last layer's initial weights by 0.1, set its bias to the log prior, and normalise the inputs.",
        "summed": "Use the mean over samples, or divide the learning rate by the batch size.",
        "targets": "Standardise the targets with the training set's mean and standard deviation, and scale predictions back "
        "for reporting.",
        "tiny": "Standardise the targets with the training set's mean and standard deviation, and scale predictions back "
        "for reporting.",
        "low": "Check for leaked targets, ignored targets counted as correct, and the number of classes.",
    },
    severity=Severity.INFO,
    explains=("LOSS002", "LOSS003", "LOSS009", "LOSS011", "EVAL004", "GRAD003"),
    at="loss target",
)
def initial_loss_off(
    run: Run,
    *,
    remark: float = 1.0,  # nats; logits of spread 1.4 (CATALOGUE LOSS010)
    warn: float = 3.0,
    low: float = 0.8,
    unit: float = 20.0,  # size of targets that is far from one: as DATA002 of inputs
    patience: int = 200,  # updates
) -> Iterator[Evidence]:
    series = regime.curve(run)
    first = _first(run, series)
    if run.fact("model.loaded") or run.fact("finetune"):
        raise Muted("the run starts from trained weights")
    if run.fact("loss.weighted"):
        raise Muted("a weighted loss has no known start")
    kind = run.fact("loss.kind")
    if kind in ("mse", "l1", "huber") and run.fact("loss.reduction") in (None, "mean"):
        far = _far_targets(run, series, kind == "mse", unit, patience)
        if far is not None:
            yield far
            return
    if kind == "mse":
        yield from _regression(run, series, first)
        return
    if run.fact("loss.reduction") == "none":
        raise Muted("the script reduces the loss by itself")
    expected = _expected(run)
    if expected is None and (times := regime.added(run)) and (known := chance.chance(run)):  # of the sum of several calls
        first, expected, series = first / times, known.loss / times, Series(series.steps, series.values / times)
    if expected is None:
        raise Blind("the kind of loss has no known start", "loss.classes")
    excess = first - expected
    step = int(series.steps[0])
    numbers = {
        "initial": first,
        "expected": expected,
        "excess": excess,
        "spread": math.sqrt(max(0.0, 2 * excess)),
        "ratio": first / expected,
    }
    if _is_sum(run, first / expected):
        yield Evidence(numbers, steps=(step, step), say="summed", severity=Severity.INFO)
    elif run.fact("loss.reduction") == "sum":
        return
    elif excess > remark:
        logits = run.series("logit_maxabs").finite().between(hi=step)
        if len(logits) and excess > 2.2 * logits.last + 0.1:  # a cross-entropy is at most ln C + twice the largest logit
            raise Muted("outputs of that size cannot cost so much: the loss holds another term")
        lasting = _still_above(series, expected + 0.5 * remark)
        serious = excess > warn or lasting
        yield Evidence(numbers, steps=(step, step), say="high", severity=Severity.WARNING if serious else Severity.INFO)
    elif first < low * expected:
        yield Evidence(numbers, steps=(step, step), say="low", confidence=Confidence.SUGGESTIVE)


def _first(run: Run, series: Series) -> float:
    """The very first loss: the next ones may already be blown up; blind when the log begins later or in averages."""
    if not len(series):
        raise Blind("no finite loss was recorded", "loss/train")
    begins = run.steps[0] if run.steps else 0
    if series.steps[0] > begins + 1 or series.steps[0] > 5 or regime.interval(run) > 5:
        raise Blind("the first record comes after the first updates", "loss/train")
    return float(series.values[0])


def _expected(run: Run) -> float | None:
    """ln C or ln 2, of a mean: a sum is told by being a multiple of it."""
    return regime.chance_level(replace(run, facts={**run.facts, "loss.reduction": "mean"}))


def _is_sum(run: Run, ratio: float) -> bool:
    """The first loss is a whole multiple of chance: the batch size, within 5 %."""
    size = run.series("batch/size").finite().values
    return len(size) > 0 and size[0] >= 4 and abs(ratio / float(size[0]) - 1) < 0.05


def _still_above(series: Series, level: float) -> bool:
    later = series.values[(series.steps >= series.steps[0] + 100) & (series.steps <= series.steps[0] + 200)]
    return len(later) >= 5 and float(np.median(later)) > level


def _far_targets(run: Run, series: Series, squared: bool, unit: float, patience: int) -> Evidence | None:
    """Targets of another size than outputs, which have not been reached: their mean is not learned, or nothing is."""
    spread, centre = run.series("batch/label_std").finite().values, run.series("batch/label_mean").finite().values
    updates = int(series.steps[-1] - series.steps[0]) + 1
    if not len(spread) or not len(centre) or updates < patience or len(series) < 10:
        return None
    deviation = math.sqrt(float(np.mean(spread**2) + np.var(centre)))
    size = math.sqrt(float(np.mean(spread**2) + np.mean(centre**2)))
    initial, now = level_of(series.values, ends(len(series))), level_of(series.values, -max(5, len(series) // 20))
    if min(initial, now) < 0:
        return None
    start, end = (math.sqrt(initial), math.sqrt(now)) if squared else (initial, now)
    near = 0.9 * deviation if squared else 0.6 * deviation  # what predicting the mean leaves, or a little less
    if 0 < size < 1 / unit and end > 3 * size and regime.plain_loss(run):
        ratio = now / (size**2 if squared else size)
        numbers = {"size": size, "deviation": deviation, "updates": updates, "now": now, "initial": initial, "ratio": ratio}
        return Evidence(numbers, steps=(int(series.steps[0]), int(series.steps[-1])), say="tiny", severity=Severity.WARNING)
    half = max(level_of(series.values[: len(series) // 2], -max(5, len(series) // 20)), 0.0)
    mean = 1.05 * deviation if squared else 0.85 * deviation  # what predicting the mean leaves, or a little more
    late = updates >= 5 * patience and end > 0.3 * deviation and (math.sqrt(half) if squared else half) > mean
    stuck = end >= near and (end > 1.5 * deviation or end > 0.95 * start)
    if size <= unit or end > 2 * start or not (stuck or late):
        return None
    numbers = {"size": size, "deviation": deviation, "updates": updates, "now": now, "initial": initial}
    span = (int(series.steps[0]), int(series.steps[-1]))
    return Evidence(numbers, steps=span, say="targets", severity=Severity.WARNING)


def _regression(run: Run, series: Series, first: float) -> Iterator[Evidence]:
    """A mean squared error that starts ten times above the mean square of the target."""
    spread, centre = run.series("batch/label_std").finite().values, run.series("batch/label_mean").finite().values
    if not len(spread) or not len(centre):
        raise Blind("the size of the targets was not seen", "batch/label_std")
    expected = float(np.mean(spread[:20] ** 2) + np.mean(centre[:20] ** 2))
    if expected > 0 and first > 10 * expected and run.fact("loss.reduction") != "sum":
        step = int(series.steps[0])
        numbers = {"initial": first, "expected": expected, "ratio": first / expected, "excess": first - expected}
        yield Evidence(numbers, steps=(step, step), say="large", severity=Severity.INFO)  # an offset would look the same
