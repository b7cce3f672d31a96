"""Most of what is computed is padding.

## What it sees

The share of padding in token batches, averaged over at least 50 of them: above 40 % a remark, above 60 % a warning.

## Why it matters

Padding costs as much as text. With 60 % padding the run takes two and a half times as long as it needs to.

## What else looks like this

- TUNE003: padding also counts in the loss; that is wrong, not only slow.
- Fixed-length inputs by design (images, packed text): no padding is seen.

## What to do

Group sequences of similar length (a length-bucketing sampler), or pad to the longest of the batch instead of a fixed
length. Or pack several documents into one row with a document mask."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF009",
    needs={"batch/pad_share": 20},
    says="{share:.0%} of the tokens in {count} batches are padding",
    fix="Bucket sequences by length or pad to the longest of each batch: up to {gain:.1f} times as fast.",
    severity=Severity.WARNING,
    at="loader",
)
def padding_waste(
    run: Run,
    *,
    most: float = 0.4,  # CATALOGUE PERF009
    grave: float = 0.6,
) -> Iterator[Evidence]:
    pads = run.series("batch/pad_share").finite()
    share = float(np.mean(np.clip(pads.values, 0.0, 1.0))) if len(pads) else 0.0
    if most < share < 1:
        severity = Severity.WARNING if share > grave else Severity.INFO
        steps = (int(pads.steps[0]), int(pads.steps[-1]))
        yield Evidence({"share": share, "count": len(pads), "gain": 1 / (1 - share)}, ("batch/pad_share",), steps, "", severity)
