"""Ranks average over different numbers of targets: the mean of their means is not the mean over all targets.

## What it sees

Valid targets per rank vary by more than `cv` within a step. The mean of the ranks' losses differs from the loss over
all targets by more than `bias` on average, beyond chance. What a rank's loss was multiplied by before `backward` is
taken into account.

## Why it matters

Averaging gradients over ranks gives every *rank* the same weight, not every token. Short sequences then count more than
long ones, and the loss depends on the world size and on how the data were split.

## What else looks like this

- Unequal counts whose effect averages out: reported as info when single steps differ, quiet when they do not.
- Losses that every rank scales by its share of all targets: their mean is the loss over all targets; quiet.
- The same within one process, over micro-batches: `TUNE009`.

## What to do

Sum the losses, all-reduce the number of valid targets, and divide by it (times the world size, since DDP averages).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from traindx import ranks
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "DIST006",
    needs={"rank/tokens | fact:world_size": 1, "rank/loss | fact:world_size": 1},
    says={
        "": "ranks have different numbers of valid targets (they vary by {cv:.0%}), so averaging their means is off "
        "by {off:+.1%} on average",
        "noise": "ranks have different numbers of valid targets (they vary by {cv:.0%}); single steps are off by "
        "{typical:.1%}, without a bias",
    },
    fix="Divide the summed loss by the number of valid targets over all ranks.",
    explains=("EVAL008",),
)
def cross_rank_normalisation(
    run: Run,
    *,
    cv: float = 0.1,  # CATALOGUE
    bias: float = 0.01,  # CATALOGUE
    least: int = 50,  # [def] steps before a mean difference of 1 % can be told from chance
) -> Iterator[Evidence]:
    count, loss, asked, steps = _common(run)
    if count.shape[1] < 2:
        return
    if len(steps) < least:
        raise Unsure(f"only {len(steps)} steps with counts of all ranks", needs_steps=least - len(steps))
    varied = float(np.median(count.std(axis=1) / count.mean(axis=1)))
    right = (asked * count).sum(axis=1) / count.sum(axis=1)
    level = (np.abs(right) > 0) & np.all(asked != 0, axis=1)
    right, asked, loss = right[level], asked[level], loss[level]
    times = loss / asked  # what each rank made of its mean before backward; DDP gives all of that the same weight
    taken = (times * asked).sum(axis=1) / times.sum(axis=1)
    off = (taken - right) / np.abs(right)
    if varied <= cv or not len(off):
        return
    mean, error = float(off.mean()), float(off.std() / np.sqrt(len(off)))
    typical = float(np.median(np.abs(off)))
    biased = abs(mean) > bias and abs(mean) > 3 * error
    if biased or typical > bias:
        yield Evidence(
            steps=(int(steps[0]), int(steps[-1])),
            say="" if biased else "noise",
            severity=Severity.WARNING if biased else Severity.INFO,
            facts={"cv": varied, "off": mean, "typical": typical},
        )


def _common(run: Run) -> tuple[Floats, Floats, Floats, Ints]:
    """Targets, losses and losses per target of every rank (all (T, ranks)), and the steps in which all of them were heard."""
    tokens, losses = ranks.rows(run, "rank/tokens"), ranks.rows(run, "rank/loss")
    asked = ranks.rows(run, "rank/token_loss") if "rank/token_loss" in run else losses  # as if nothing was made of it
    names = [n for n in tokens.names if n in losses.names and n in asked.names]
    steps = reduce(np.intersect1d, (tokens.steps, losses.steps, asked.steps))
    count, loss, each = (
        t.values[np.searchsorted(t.steps, steps)][:, [t.names.index(n) for n in names]] for t in (tokens, losses, asked)
    )
    whole = np.all(np.isfinite(count) & np.isfinite(loss) & np.isfinite(each), axis=1) & (np.nan_to_num(count).sum(axis=1) > 0)
    return count[whole], loss[whole], each[whole], steps[whole]
