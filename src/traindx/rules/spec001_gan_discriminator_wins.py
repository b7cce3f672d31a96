"""The discriminator is too strong: it recognises fakes almost always, and the generator has nothing to learn from.

## What it sees

Discriminator accuracy is above `accuracy` over the last `steps` steps, from `gan/d_accuracy` or from mean outputs that
are probabilities. Meanwhile the generator's gradient norm has fallen below `faded` of its early level. Without the
generator's norm it is a hint only. In a log with the losses of both players: the discriminator's loss is below a
twentieth of its start (and of ln 2) for that long. The generator's is more than three times its early one.

## Why it matters

A perfect discriminator has a flat landscape around every fake: the generator's gradient vanishes and neither player
improves.

## What else looks like this

- A strong discriminator early on, with gradients that still reach the generator: normal.
- A critic (Wasserstein) has outputs without bounds: large differences are its purpose; not judged.
- Rising generator losses alone, or a discriminator at .3: normal in this game.

## What to do

A higher rate for the generator or a lower one for the discriminator, gradient penalty (R1, γ = 10), spectral norm,
labels of 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx.finding import Confidence, Evidence
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats.persistence import finite_median


@rule(
    "SPEC001",
    needs={"gan/d_accuracy | gan/d_real | gan/d_loss": 5},
    says={
        "": "the discriminator is right {accuracy:.1%} of the time, and the generator's gradient fell to {faded:.2g} "
        "of its early norm",
        "losses": "the discriminator's loss fell from {before:.3g} to {now:.2g}, and the generator's rose from "
        "{g_before:.3g} to {g_now:.3g}",
        "hint": "the discriminator is right {accuracy:.1%} of the time; the generator may get no gradient any more",
    },
    fix="Weaken the discriminator: R1 penalty, spectral norm, labels of 0.9, or a lower learning rate for it.",
    at="loss sum",
)
def gan_discriminator_wins(run: Run, *, accuracy: float = 0.98, faded: float = 0.01, steps: int = 500) -> Iterator[Evidence]:
    # CATALOGUE: accuracy above .98 for 500 steps, generator norm below a hundredth of its own early level.
    right = _accuracy(run)
    if not len(right):
        yield from _by_losses(run, steps)
    if len(right) < 5 or right.steps[-1] - right.steps[0] < steps:
        return
    # under the default budget late records are few and far between, but each is a whole batch
    late = right.between(lo=min(right.steps[-1] - steps, right.steps[-5]))
    if float(np.quantile(late.values, 0.1)) <= accuracy:
        return
    at, level = (int(late.steps[0]), int(late.steps[-1])), float(np.median(late.values))
    norm = run.series("gan/g_grad_norm").finite()
    if len(norm) < 5:
        yield Evidence(steps=at, say="hint", confidence=Confidence.SUGGESTIVE, facts={"accuracy": level})
        return
    head = max(len(norm) // 20, min(10, len(norm) // 3))  # looks become rare with time: the first are close together
    recent = norm.between(lo=norm.steps[-1] - steps).values[
        -3:
    ]  # with rare looks the last alone: the one before is of another time
    early, now = finite_median(norm.values[:head]), finite_median(recent)
    if early > 0 and now < faded * early:
        yield Evidence(steps=at, facts={"accuracy": level, "faded": now / early})


def _by_losses(run: Run, steps: int, none: float = 0.05, rise: float = 3.0) -> Iterator[Evidence]:
    """From a log: next to no loss left for the discriminator for that long, and several times the early one for the generator.

    Losses below zero are a critic's: its distance says nothing of who wins.
    """
    d, g = run.series("gan/d_loss").finite(), run.series("gan/g_loss").finite()
    if len(d) < 50 or len(g) < 50 or d.steps[-1] - d.steps[0] < 2 * steps or min(d.values.min(), g.values.min()) < 0:
        return
    head = max(5, len(d) // 50)
    before, g_before = finite_median(d.values[:head]), finite_median(g.values[:head])
    late, g_late = (s.between(lo=d.steps[-1] - steps) for s in (d, g))
    if len(late) < 5 or len(g_late) < 5:
        return
    now, g_now = finite_median(late.values), finite_median(g_late.values)
    if float(np.quantile(late.values, 0.9)) < none * min(before, math.log(2)) and g_now > rise * g_before > 0:
        facts = {"before": before, "now": now, "g_before": g_before, "g_now": g_now}
        yield Evidence(steps=(int(late.steps[0]), int(late.steps[-1])), say="losses", facts=facts)


def _accuracy(run: Run) -> Series:
    """The discriminator's accuracy; from mean outputs only where they are probabilities, as the weaker of both sides."""
    told = run.series("gan/d_accuracy").finite()
    if len(told):
        return told
    real, fake = run.series("gan/d_real").finite(), run.series("gan/d_fake")
    other = fake.at(real.steps)
    known = np.isfinite(other)
    values, others = real.values[known], other[known]
    inside = len(values) > 0 and min(values.min(), others.min()) >= 0 and max(values.max(), others.max()) <= 1
    return Series(real.steps[known], np.minimum(values, 1 - others)) if inside else Series(real.steps[:0], values[:0])
