"""Fine-tuning has cost the model what it could do before.

## What it sees

The loss on a probe set of the original task, measured before training and again during it (at least twice): above its first
value by more than three standard errors and 10 %, in both of the last two measurements.

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

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE001",
    needs={"probe/loss": 3},
    says="the loss on the original task rose from {before:.4g} to {after:.4g} ({rise:+.0%}, {z:.0f} standard errors)",
    fix="Lower the learning rate 3 to 10 times, train fewer epochs, mix in 5–20 % old data, or interpolate with the "
    "old weights (α = .5–.8).",
    severity=Severity.WARNING,
)
def forgetting(
    run: Run,
    *,
    deviations: float = 3.0,  # CATALOGUE TUNE001
    relative: float = 0.1,
) -> Iterator[Evidence]:
    probe = run.series("probe/loss").finite()
    if len(probe) < 3:
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
