"""Validation is better than training, which needs an explanation.

## What it sees

The validation loss is below the training loss *after* it, by 2 % and three standard errors, in at least three of four
evaluations. "After" is a quarter of the way to the next evaluation, so that the lag of an epoch's average cannot be the
reason. From logs alone that is a remark: dropout, augmentation and label smoothing raise the training loss and are the
usual reason. A factor of five or more that is there from the first evaluation on and stays about the same is none of
these: a warning. Where the same training batches were also evaluated in eval mode, the comparison is clean: then it is
a warning.

## Why it matters

Usually it is nothing. When it is not, the validation set overlaps with training, is easier or shorter, or is averaged
wrongly (padding counted), and the figure will not hold on new data.

## What else looks like this

- The training figure is an average over an epoch in which the model improved: compared with later training loss, the effect
  vanishes.
- Dropout, mixup, augmentation, smoothing, auxiliary terms in the training loss only.
- DATA006: overlap, seen in the samples themselves. EVAL008: averages that do not add up. EVAL002: a tiny set.

## What to do

Evaluate a part of the training set in eval mode with validation transforms (`traindx check` does). If validation is still
better, look for shared samples and at how the set was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "EVAL006",
    subject="evaluation",
    needs={"loss/val": 3, "loss/train | eval/train_in_eval": 3},
    says={
        "": "validation ({val:.4g}) is better than training ({train:.4g}) in {count} of {evaluations} evaluations{reason}",
        "clean": "validation ({val:.4g}) is better than training batches on the same model in eval mode ({train:.4g})",
        "scale": "validation ({val:.4g}) is {ratio:.0f} times smaller than training ({train:.4g}), by the same factor "
        "since the first evaluation: the two are averaged differently",
    },
    fix={
        "": "No action needed if dropout, augmentation or label smoothing explain it; otherwise look for samples "
        "shared with training.",
        "clean": "Look for samples shared with training, an easier or shorter validation set, or padding in its average.",
        "scale": "Divide both sums by the number of samples; look for a mean that is divided again by the batch size.",
    },
    severity=Severity.INFO,
    at="evaluate",
)
def val_better_than_train(
    run: Run,
    *,
    margin: float = 0.02,  # of the training loss
    deviations: float = 3.0,  # CATALOGUE EVAL006
    share: float = 0.75,
    factor: float = 5.0,  # dropout and augmentation cost the less, the less is learned: never this much at the start
) -> Iterator[Evidence]:
    val = regime.curve(run, "loss/val")
    if len(val) < 3 or regime.adversarial(run) or regime.reinforcement(run):
        return
    if run.fact("loss.reduction") == "sum":
        raise Muted("the training loss is a sum over its batch, the validation loss was recorded per target")
    if run.fact("loss.reduction") == "none" or len(run.matrix("loss/terms").names) > 1:
        raise Muted("the training loss is what the script makes of its loss calls, the validation loss those calls alone")
    error = _error(run, val)
    clean = run.series("eval/train_in_eval").finite()
    if len(clean):
        train, own = _side_by_side(clean, val)
        limit = train - np.maximum(margin * np.abs(train), deviations * error)
        if float(np.mean(own < limit)) >= share:
            values = {"val": float(np.median(own)), "train": float(np.median(train))}
            yield Evidence(values, ("loss/val",), None, "clean", Severity.WARNING)
        return
    later = _train_after(run, val)
    known = np.isfinite(later)
    if known.sum() < 3:
        return
    limit = later - np.maximum(margin * np.abs(later), deviations * error)
    below = val.values[known] < limit[known]
    half = below[len(below) // 2 :]
    if below.mean() >= share and half.mean() >= share:
        at = np.flatnonzero(known)[np.flatnonzero(below)[-1]]
        values = {
            "val": float(val.values[at]),
            "train": float(later[at]),
            "count": int(below.sum()),
            "evaluations": int(known.sum()),
        }
        steps = (int(val.steps[0]), int(val.steps[-1]))
        ratio = _factor(later[known], val.values[known], factor)
        if ratio is not None:
            yield Evidence({**values, "ratio": ratio}, ("loss/val",), steps, "scale", Severity.WARNING, Confidence.STRONG)
            return
        yield Evidence({**values, "reason": _reason(run)}, ("loss/val",), steps, "", Severity.INFO, Confidence.STRONG)


def _side_by_side(clean: Series, val: Series) -> tuple[Floats, Floats]:
    """The later evaluations of training data, each with the validation nearest to it: the model of the same moment."""
    half = len(clean) // 2
    nearest = np.argmin(np.abs(val.steps[None, :] - clean.steps[half:, None]), axis=1)
    return clean.values[half:], val.values[nearest]


def _factor(train: Floats, val: Floats, least: float) -> float | None:
    """A factor that has been between the curves since the first evaluation; None when there is none, or it grew."""
    if len(val) < 6 or float(np.min(val)) <= 0 or float(np.max(val)) < 1.3 * float(np.min(val)):
        return None
    ratio = train / val
    if float(np.min(ratio)) < least or float(np.max(ratio)) > 2.5 * float(np.min(ratio)):
        return None
    return float(np.median(ratio))


def _error(run: Run, val: Series) -> float:
    known = run.series("eval/loss_se").finite().values
    if len(known):
        return float(np.median(known))
    sigma = stats.noise_sigma(val.values) if len(val) >= 5 else 0.0
    return sigma if math.isfinite(sigma) else 0.0


def _train_after(run: Run, val: Series) -> Floats:
    """The training loss a little after each evaluation: its weights are better, so it may only err towards "no finding"."""
    train = regime.curve(run)
    gaps = np.diff(val.steps)
    gap = float(np.median(gaps)) if len(gaps) else 0.0
    by_epoch = regime.logged_by_epoch(run) or regime.interval(run) >= 0.5 * gap
    out = np.full(len(val), np.nan)
    for i, step in enumerate(val.steps):
        reach = gap * (1.01 if by_epoch else 0.25)
        after = train.between(int(step) + 1, step + reach).values
        if not len(after) and i == len(val) - 1 and not by_epoch:
            after = train.between(step - 0.1 * gap, int(step)).values  # the run ended with an evaluation
        if len(after):
            out[i] = float(np.median(after))
    return out


def _reason(run: Run) -> str:
    found = [
        word
        for word, there in (("dropout", facts.has_layer(run, "Dropout")), ("label smoothing", run.fact("loss.smoothing")))
        if there
    ]
    return f"; {' and '.join(found)} in training may explain it" if found else ""
