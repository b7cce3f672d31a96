"""Differences between evaluations are no larger than chance makes them.

## What it sees

The standard error of the validation loss, from its per-sample spread where it was seen, else from how much consecutive
evaluations differ after their drift is taken out. It fires when the best evaluation beats the others of the second half
by less than two standard errors of a difference. That error must be at least 1 % of the level, and what cannot be
resolved at least a tenth of what validation has gained. Next to a large gain the same noise does no harm. It is a warning
where one evaluation is off by more than half of the level and the second half is no better than the first evaluation.

## Why it matters

The "best" checkpoint is then the luckiest one, a plateau and a slow fall look alike, and early stopping is a coin
toss. The finding says which differences the set can resolve, and how many samples a resolution of 1 % would take.

## What else looks like this

- DATA009: the validation set itself changes from time to time.
- EVAL009: dropout is active while evaluating.
- LOSS005: the weights, not the measurement, jump about; then the training loss does so too.

## What to do

Nothing is wrong with the training. Evaluate on more samples or always on the same ones, compare checkpoints sample by
sample (paired), and quote the interval. Smooth over three evaluations before choosing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.course import metrics
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "EVAL002",
    subject="evaluation",
    needs={"loss/val": 6},
    says={
        "": "the validation loss varies by {se:.2g} ({relative:.1%}) at random, so differences below {resolution:.2g} mean "
        "nothing: the best evaluation (step {best}) may be luck",
        "wild": "the validation loss jumps between {least:.3g} and {most:.3g}, and is no better than at first ({first:.3g})",
        "few": "validation has only {n:.0f} samples, so its loss varies by {se:.2g} ({relative:.0%}) at random and "
        "differences below {resolution:.2g} mean nothing: the best evaluation (step {best}) may be luck",
    },
    fix={
        "": "Average the last 3–5 evaluations, or enlarge the validation set{samples}.",
        "wild": "Look for what changes from one evaluation to the next: BatchNorm statistics of few samples, a missing "
        "`model.eval()`, other preprocessing, weights thrown about by the learning rate. Keep the best checkpoint.",
    },
    severity=Severity.INFO,
    at="val_loader given",
)
def eval_too_noisy(
    run: Run,
    *,
    relative: float = 0.01,  # noise below 1 % of the level misleads nobody
    deviations: float = 2.0,  # CATALOGUE EVAL002
    few: int = 30,  # samples up to which an accuracy may be off by ten points either way
    wild: float = 0.5,  # of the level: no sample of ordinary size scatters so, the weights do
    of_gain: float = 0.1,  # share of the gain that must stay unresolved; every small experiment has noise
) -> Iterator[Evidence]:
    val = regime.curve(run, "loss/val")
    if len(val) < 6 or (len(val) < 8 and not len(run.series("eval/loss_se"))):
        return
    late = val.values[len(val) // 2 :]
    level = abs(float(np.median(late)))
    known = run.series("eval/loss_se").finite().values
    # Second differences of fewer than eight evaluations, or of the steep start, are curvature and not noise.
    se = float(np.median(known[-5:])) if len(known) else stats.noise_sigma(val.values[-max(8, 3 * len(val) // 4) :])
    if not math.isfinite(se) or level <= 0 or se < relative * level:
        return
    best = int(np.argmin(val.values))
    others = np.delete(val.values, best)[-max(3, len(val) // 2) :]
    lead = float(np.median(others) - val.values[best])
    resolution = deviations * math.sqrt(2) * se
    gained = float(np.median(val.values[:2]) - np.median(late))
    if lead >= resolution or resolution < of_gain * gained:
        return
    values = {"se": se, "relative": se / level, "best": int(val.steps[best]), "lead": max(lead, 0.0), "resolution": resolution}
    needed = _samples(run, (resolution / (0.01 * level)) ** 2)
    seen = run.series("eval/samples").finite().values
    n = float(np.median(seen)) if len(seen) else math.inf
    told = {**values, "n": n, "each": 1 / n, "samples": needed}
    aimless = se > wild * level and float(np.median(late)) >= float(val.values[0])
    aimless = aimless and not regime.may_be_negative(run) and not metrics.improved(run)
    told |= {"least": float(late.min()), "most": float(late.max()), "first": float(val.values[0])}
    say = "wild" if aimless else "few" if 2 <= n <= few else ""
    span = (int(val.steps[0]), int(val.steps[-1]))
    yield Evidence(told, ("loss/val",), span, say, severity=Severity.WARNING if aimless else None)


def _samples(run: Run, factor: float) -> str:
    """How many samples would resolve 1 % of the level, in brackets: errors shrink with the square root of their number."""
    if factor > 100:
        return ""
    seen = run.series("eval/samples").finite().values
    told = f"about {float(np.median(seen)) * factor:,.0f}" if len(seen) else f"{factor:,.0f} times as many"
    return f" ({told} samples resolve 1 %)"
