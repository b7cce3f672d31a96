"""Mode collapse: the generator's samples are nearly all alike.

## What it sees

`gan/fake_diversity`, the mean distance between fakes of a batch over that between reals, below `least` in three of
the last five looks, after at least `steps` steps.

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

from traindx.finding import Evidence
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import k_of_m


@rule(
    "SPEC002",
    needs={"gan/fake_diversity": 10},
    says="fakes differ from one another by only {diversity:.0%} of what reals do",
    fix="Use minibatch standard deviation, larger batches, an R1 penalty, or a lower rate for the generator.",
)
def gan_mode_collapse(run: Run, *, least: float = 0.2, steps: int = 500) -> Iterator[Evidence]:
    # CATALOGUE: a fifth of the reals' distance; [def] 500 steps for the generator to leave its start.
    spread = run.series("gan/fake_diversity").finite()
    late = spread.between(lo=spread.steps[0] + steps) if len(spread) else spread
    low = late.values < least
    if len(late) >= 5 and k_of_m(low):
        first = late.steps[low][0]
        yield Evidence(steps=(int(first), int(late.steps[-1])), facts={"diversity": late.last})
