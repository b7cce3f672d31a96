"""The generator produces only a few kinds of samples: the generator's samples are nearly all alike.

## What it sees

`gan/fake_diversity`, the mean distance between fakes of a batch divided by that between reals. It is below `least` in
three of the last five looks (or in all, if there are fewer). At least `steps` steps must have passed, or a tenth of
them where fakes once differed by more than twice that. Fakes that never differed by more than a tenth of it are
reported after half of them.

## Why it matters

The generator has found one answer that fools the discriminator and gives it to every question. Losses look ordinary.

## What else looks like this

- The first steps: an untrained generator varies little; it is not looked at before `steps`.
- Real data with little variety: the measure is relative to it.

## What to do

Minibatch standard deviation, larger batches, R1 penalty, a lower learning rate for the generator.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m


@rule(
    "SPEC002",
    needs={"gan/fake_diversity": 5},
    says="generated samples are almost alike: they vary {diversity:.0%} as much as real ones",
    fix="Use minibatch standard deviation, larger batches, an R1 penalty, or a lower rate for the generator.",
    explains=("ACTV001", "GRAD001"),
)
def gan_mode_collapse(run: Run, *, least: float = 0.2, steps: int = 500) -> Iterator[Evidence]:
    # CATALOGUE: a fifth of the reals' distance; [def] 500 steps for the generator to leave its start.
    spread = run.series("gan/fake_diversity").finite()
    if len(spread) < 5:
        return
    age = spread.steps - spread.steps[0]
    if age[-1] >= steps / 2 and float(np.max(spread.values)) < least / 10:  # an untrained generator varies more than that
        yield Evidence(steps=(int(spread.steps[0]), int(spread.steps[-1])), facts={"diversity": spread.last})
        return
    had = np.maximum.accumulate(spread.values) > 2 * least  # it once made different things: no need to wait
    late = spread.where((age >= steps) | (had & (age >= steps / 10)))
    low = late.values < least
    if len(late) >= 3 and low[-1] and (k_of_m(low) if len(late) >= 5 else bool(np.all(low))):
        first = late.steps[low][0]
        yield Evidence(steps=(int(first), int(late.steps[-1])), facts={"diversity": late.last})
