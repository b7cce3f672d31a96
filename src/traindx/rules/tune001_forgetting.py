"""Fine-tuning has cost the model what it could do before.

## What it sees

The loss on a probe set of the original task, measured before training and again during it (at least twice): above its first
value by more than three standard errors and 10 %, in both of the last two measurements. Without a probe set, one plain case:
the classes that are evaluated made up most of the training labels at first and less than a tenth at the end, and the
validation loss is three times its best.

## Why it matters

A model that answers the new task and has lost the old ones is worse than the one you started from, and no figure of the new
task shows it.

## What else looks like this

- Only the format of the answers changed: check with a template and a few examples.
- BatchNorm statistics that drifted: recompute them.
- TUNE006: the same too hot training, seen on the new task.

## What to do

Learning rate ÷ 3 to ÷ 10, fewer epochs, LoRA instead of full tuning, 5 to 20 % of old data mixed in, or interpolate the
weights: θ₀ + α(θ − θ₀) with α from .5 to .8.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Blind, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "TUNE001",
    needs={"probe/loss | batch/labels/class": 3},
    says={
        "": "the loss on the original task rose from {before:.4g} to {after:.4g} ({rise:+.0%}, {z:.0f} standard errors)",
        "classes": "training no longer shows the classes that are evaluated ({early:.0%} of its labels at first, {late:.0%} "
        "now), and their loss rose from {before:.4g} to {after:.4g}",
    },
    fix="Lower the learning rate 3 to 10 times, train fewer epochs, mix in 5–20 % old data, or interpolate with the "
    "old weights (α = .5–.8).",
    severity=Severity.WARNING,
    explains=("EVAL004", "LOSS008", "LOSS001", "LOSS006", "DATA003"),
)
def forgetting(
    run: Run,
    *,
    deviations: float = 3.0,  # CATALOGUE TUNE001
    relative: float = 0.1,
    gone: float = 0.1,  # share of training labels below which the classes of validation are no longer trained
) -> Iterator[Evidence]:
    probe = run.series("probe/loss").finite()
    if len(probe) < 3:
        yield from _classes_gone(run, gone)
        return
    known = run.series("probe/loss_se").finite().values
    before = float(probe.values[0])
    se = max(float(np.median(known)) if len(known) else 0.01 * abs(before), 1e-12) * np.sqrt(2)
    late = probe.values[-2:]
    if np.all(late > before + deviations * se) and np.all(late > before + relative * abs(before)):
        after = float(late[-1])
        values = {
            "before": before,
            "after": after,
            "rise": (after - before) / abs(before) if before else np.inf,
            "z": (after - before) / se,
        }
        yield Evidence(values, ("probe/loss",), (int(probe.steps[0]), int(probe.steps[-1])))


def _classes_gone(run: Run, gone: float) -> Iterator[Evidence]:
    """Without a probe: the evaluated classes were trained at first and are no more, and their loss multiplied."""
    fed, val = run.matrix("batch/labels/class"), run.series("loss/val").finite()
    asked = {str(c) for c, n in facts.counts(run.fact("data.val_class_counts")).items() if n > 0}
    if len(fed) < 9 or len(val) < 6 or not asked:
        raise Blind("no probe of the original task was kept", "probe/loss")
    third = len(fed) // 3
    inside = np.array([n in asked for n in fed.names])
    share = [_share(fed.values[part], inside) for part in (slice(None, third), slice(-third, None))]
    best = int(np.argmin(val.values))
    before, after = float(val.values[best]), float(np.median(val.values[-2:]))
    if not (share[0] > 0.5 and share[1] < gone):
        raise Blind("no probe of the original task was kept", "probe/loss")
    if after > 3 * abs(before) and best < len(val) - 2:
        seen = {"early": share[0], "late": share[1], "before": before, "after": after}
        yield Evidence(seen, ("loss/val",), (int(val.steps[best]), int(val.steps[-1])), "classes")


def _share(rows: Floats, inside: np.typing.NDArray[np.bool_]) -> float:
    total = float(np.nansum(rows))
    return float(np.nansum(rows[:, inside])) / total if total > 0 else 0.0
