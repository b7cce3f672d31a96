"""Unequal shares: the mean of per-rank means is taken though ranks hold different numbers of targets.

## What it sees

Valid targets per rank that vary by more than `cv` within a step, while the mean of the ranks' losses differs from the
loss over all targets by more than `bias` on average, beyond what chance would give.

## Why it matters

Averaging gradients over ranks weights every *rank* alike, not every token: short sequences count more than long ones,
and the loss depends on how the data were dealt out and on the world size.

## What else looks like this

- Unequal counts whose effect averages out: reported as info when single steps differ, quiet when they do not.
- The same within one process, over micro-batches: `TUNE009`.

## What to do

Sum the losses, all-reduce the number of valid targets, and divide by it (times the world size, since DDP averages).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import ranks
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DIST006",
    needs={"rank/tokens | fact:world_size": 1, "rank/loss | fact:world_size": 1},
    says={
        "": "valid targets vary by {cv:.0%} between ranks, and the mean of rank means is off by {off:+.1%} on average",
        "noise": "valid targets vary by {cv:.0%} between ranks; single steps are off by {typical:.1%}, without a bias",
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
    tokens, losses = ranks.rows(run, "rank/tokens"), ranks.rows(run, "rank/loss")
    steps, mine, theirs = np.intersect1d(tokens.steps, losses.steps, return_indices=True)
    columns = [n for n in tokens.names if n in losses.names]
    count = tokens.values[mine][:, [tokens.names.index(n) for n in columns]]
    loss = losses.values[theirs][:, [losses.names.index(n) for n in columns]]
    whole = np.all(np.isfinite(count) & np.isfinite(loss), axis=1) & (np.nan_to_num(count).sum(axis=1) > 0)
    count, loss, steps = count[whole], loss[whole], steps[whole]
    if len(columns) < 2:
        return
    if len(steps) < least:
        raise Unsure(f"only {len(steps)} steps with counts of all ranks", needs_steps=least - len(steps))
    varied = float(np.median(count.std(axis=1) / count.mean(axis=1)))
    right = (loss * count).sum(axis=1) / count.sum(axis=1)
    level = np.abs(right) > 0
    off = (loss.mean(axis=1) - right)[level] / np.abs(right[level])
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
