"""Gradient accumulation averages micro-batches that hold unequal numbers of tokens.

## What it sees

Updates made of several backward calls. The number of valid targets differs between micro-batches by more than a fifth
(deviation over mean). The mean of their losses recently differs from the loss over all tokens by more than 1 %. Where
only the tokens differ, by more than half, it is a remark.

## Why it matters

The mean of means gives a token in a short micro-batch more weight than one in a long one. Accumulating four times is then
not the same as a batch four times as large, and the loss that is shown is not the loss of the data.

## What else looks like this

- WIRE011: the loss is not divided by the number of micro-batches at all.
- DIST006: the same mistake across ranks.
- Fixed-length blocks: every micro-batch holds as many tokens, and nothing differs.

## What to do

Sum the token losses of all micro-batches and divide by the number of valid tokens of the whole update (`num_items_in_batch`
in recent Trainers).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE009",
    needs={"batch/micro_valid_cv": 5, "loss/token_mean": 5, "loss/train": 5, "loop/backwards": 5},
    says={
        "": "the {k:.0f} micro-batches of an update have different numbers of valid tokens (they vary by {cv:.0%}); "
        "averaging their losses is {gap:.1%} off the loss per token",
        "unequal": "the {k:.0f} micro-batches of an update have different numbers of valid tokens (they vary by {cv:.0%}) "
        "and each is averaged separately: tokens of short ones count more",
    },
    fix="Sum token losses and divide by the valid tokens of the whole update, instead of averaging micro-batch means.",
    severity=Severity.WARNING,
    at="backward",
)
def accumulation_token_norm(
    run: Run,
    *,
    cv: float = 0.2,  # CATALOGUE TUNE009
    gap: float = 0.01,
    unequal: float = 0.5,  # [def] deviation over mean from which tokens weigh so differently that it is worth a remark
) -> Iterator[Evidence]:
    calls = run.series("loop/backwards").finite().values
    k = float(np.median(calls)) if len(calls) else 1.0
    spread = run.series("batch/micro_valid_cv").finite().values
    token, mean = run.series("loss/token_mean").finite(), run.series("loss/train").finite()
    at, a, b = np.intersect1d(token.steps, mean.steps, return_indices=True)
    per_token, per_batch = token.values[a], mean.values[b]
    keep = np.abs(per_token) > 0
    if k < 2 or not len(spread) or keep.sum() < 5:
        return
    usual = float(np.median(spread))
    apart = np.abs(per_batch[keep] - per_token[keep]) / np.abs(per_token[keep])
    # Before anything is learned every token costs the same, and the two means agree whatever the lengths.
    off = float(np.median(apart[-max(5, len(apart) // 3) :]))
    numbers, span = {"cv": usual, "k": k, "gap": off}, (int(at[0]), int(at[-1]))
    if usual > cv and off > gap:
        yield Evidence(numbers, ("loss/train",), span)
    elif usual > unequal:
        yield Evidence(numbers, ("loss/train",), span, "unequal", Severity.INFO)
