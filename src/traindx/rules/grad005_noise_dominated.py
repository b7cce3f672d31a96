"""The gradient is mostly noise: the batch is too small for the signal that is left.

## What it sees

The gradient noise scale (from micro-batches, ranks or a trial): its lower bound over at least ten estimates above ten times
the batch size, while the loss does not fall.

## Why it matters

Steps go mostly in random directions and cancel. Progress is luck; a larger batch would make nearly as much progress per step
as it costs.

## What else looks like this

- The end of any training: the signal fades, the noise stays. A decaying learning rate averages it out.
- DATA004: labels that carry nothing give no signal at *any* batch size.
- OPTM005: the noise floor of the learning rate.

## What to do

Four to eight times the batch (or accumulation), decay the learning rate, average the weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run
from traindx.stats import Direction


@rule(
    "GRAD005",
    needs={"grad_noise_scale": 10},
    says="the loss does not fall, and gradients are mostly noise: their noise scale is at least {bound:.3g}, "
    "{times:.0f} times the batch size of {batch:.0f}",
    fix="Use four to eight times the batch size (or accumulate), or decay the learning rate now.",
    severity=Severity.INFO,
)
def noise_dominated(
    run: Run,
    *,
    times: float = 10.0,  # CATALOGUE GRAD005
    enough: int = 50,
) -> Iterator[Evidence]:
    scale = run.series("grad_noise_scale")
    seen = scale.values[np.isfinite(scale.values) | np.isposinf(scale.values)][-enough:]
    size = run.series("batch/size").finite().values
    if not len(size):
        raise Blind("the batch size is not known", "batch/size")
    if len(seen) < 10:
        raise Unsure("too few estimates of the noise scale", needs_steps=enough)
    batch = float(np.median(size[-200:]))
    bound = float(np.quantile(np.minimum(seen, 1e300), 0.1))
    if bound <= times * batch:
        return
    loss = regime.curve(run)
    if len(loss) >= 30 and stats.trend_verdict(loss.values).direction is Direction.FALLING:
        return
    late = regime.lr(run)
    decayed = len(late) > 0 and late.last < 0.1 * regime.peak_lr(run)
    sure = Confidence.STRONG if len(seen) >= enough and not decayed else Confidence.SUGGESTIVE
    severity = Severity.WARNING if sure is Confidence.STRONG and times * 10 * batch < bound else None
    numbers = {"bound": bound, "times": bound / batch, "batch": batch}
    yield Evidence(numbers, steps=(int(scale.steps[0]), int(scale.steps[-1])), severity=severity, confidence=sure)
