"""The validation loss rises while the answers stay good: the model has become too sure of itself.

## What it sees

A validation loss that rose since its minimum (noise-aware, as for overfitting), while accuracy did not fall beyond two
standard errors. A single temperature, fitted on half of the evaluation, removes more than half of the rise. In a log
without predictions the first two alone are a hypothesis.

## Why it matters

Half of what looks like overfitting is confidence. The model is usable after dividing its logits by one number; stopping at
the minimum of the loss may give away accuracy.

## What else looks like this

- LOSS008 proper: accuracy falls, or no temperature helps.
- Label smoothing makes a model too unsure (temperature below 1): not this.
- Soft or noisy labels: the loss cannot fall to zero.

## What to do

Fit a temperature on held-out data before probabilities are used, train with label smoothing of .05 to .1, and choose the
checkpoint by the metric that counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "EVAL005",
    subject="evaluation",
    needs={"loss/val": 8, "accuracy/val | metric/val/*": 8},
    says={
        "": "the validation loss rose from {low:.3g} to {now:.3g} while accuracy held ({accuracy:.1%}); a temperature "
        "of {temperature:.2f} removes {share:.0%} of the rise",
        "guess": "the validation loss rose from {low:.3g} to {now:.3g} while accuracy went from {before:.1%} to "
        "{accuracy:.1%}: the model may be overconfident, not worse",
    },
    fix={
        "": "Choose the checkpoint by accuracy. Divide the logits by {temperature:.2f} where you use probabilities, "
        "or train with label smoothing of 0.05–0.1.",
        "guess": "Choose the checkpoint by accuracy. Fit a temperature on held-out data, or train with label smoothing of "
        "0.05–0.1.",
    },
    severity=Severity.INFO,
)
def miscalibrated(
    run: Run,
    *,
    temperature: float = 1.3,  # CATALOGUE EVAL005
    recovered: float = 0.5,
) -> Iterator[Evidence]:
    val, accuracy = regime.curve(run, "loss/val"), facts.accuracy(run)
    if len(val) < 8 or len(accuracy) < 8:
        return
    found = stats.overfit_na(val.values, regime.losses_at(run, val.steps), negative=regime.may_be_negative(run))
    if found.fired is None:
        return
    best, end = int(val.steps[found.best]), int(val.steps[-1])
    before, now = _around(accuracy.at(val.steps), found.best), _around(accuracy.at(val.steps), len(val) - 1)
    if not math.isfinite(before) or now < before - 2 * _error(run, before):
        return
    values = {"low": found.best_value, "now": float(val.values[-1]), "accuracy": now, "before": before}
    tempered, heat = run.series("eval/nll_tempered").finite(), run.series("eval/temperature").finite()
    if not len(tempered) or not len(heat):
        yield Evidence(values, ("loss/val",), (best, end), "guess", Severity.INFO, Confidence.SUGGESTIVE)
        return
    share = (float(val.values[-1]) - tempered.last) / found.rise if found.rise > 0 else 0.0
    if heat.last > temperature and share > recovered:
        yield Evidence({**values, "temperature": heat.last, "share": min(share, 1.0)}, ("loss/val",), (best, end))


def _around(values: np.ndarray, at: int) -> float:
    part = values[max(0, at - 1) : at + 2]
    part = part[np.isfinite(part)]
    return float(np.median(part)) if len(part) else math.nan


def _error(run: Run, share: float) -> float:
    """Standard error of a difference of two accuracies; .5 % where the number of samples is not known."""
    seen = run.series("eval/samples").finite().values
    n = float(np.median(seen)) if len(seen) else 0.0
    return math.sqrt(2 * share * (1 - share) / n) if n > 0 and 0 <= share <= 1 else 0.005
