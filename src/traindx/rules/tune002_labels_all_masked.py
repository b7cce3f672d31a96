"""Batches in which every label is ignored.

## What it sees

The share of targets that count, per batch. Any batch without one; more than 5 % such batches; or less than 1 % valid
targets over all.

## Why it matters

The mean over nothing is NaN: the loss shows nan (or 0.0), although the gradients are exactly zero and the weights are *not*
harmed. Samples whose answer was cut off by truncation, or whose response marker was not found, teach nothing at all.

## What else looks like this

- NUMR001: a NaN that does poison the weights. Here gradients stay finite.
- LOSS011: a loss of exactly 0.0 that is real.
- Masked-language models ignore 85 % of the targets by design: far from the limit.

## What to do

Check the ids of the response template, truncate the prompt and never the answer, leave out samples without a label. The
weights are fine: resume.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE002",
    needs={"batch/valid_targets | event:empty_targets": 1},
    says={
        "": "{count:.0f} batches have no valid target, first at step {first}: their loss is a mean over nothing",
        "sparse": "only {share:.2%} of the targets count",
        "all": "no target counts in any of {count:.0f} batches: nothing is being learned",
    },
    fix="Check the response template and the truncation (cut the prompt, not the answer); leave out samples without a label.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("NUMR001", "NUMR002", "NUMR008", "LOSS001", "LOSS011", "LOSS002", "GRAD004", "WIRE016"),
)
def labels_all_masked(
    run: Run,
    *,
    batches: float = 0.05,  # CATALOGUE TUNE002
    valid: float = 0.01,
) -> Iterator[Evidence]:
    share = run.series("batch/valid_targets").finite()
    empty = share.where(share.values == 0)
    events = run.events_of("empty_targets")
    count = max(len(empty), sum(int(facts.number(e.data.get("count"), 1.0)) for e in events))
    overall = float(np.mean(share.values)) if len(share) else 1.0
    if len(share) >= 3 and overall == 0:
        steps = (int(share.steps[0]), int(share.steps[-1]))
        yield Evidence({"count": len(share)}, ("targets",), steps, "all", Severity.CRITICAL)
        return
    if count:
        first = min([*(e.step for e in events), *(int(s) for s in empty.steps)])
        last = max([*(e.step for e in events), *(int(s) for s in empty.steps)])
        often = len(empty) > batches * max(len(share), 1) or _broke(run)
        yield Evidence({"count": count}, ("targets",), (first, last), "", Severity.CRITICAL if often else Severity.WARNING)
    elif overall < valid:
        yield Evidence({"share": overall}, ("targets",), None, "sparse")


def _broke(run: Run) -> bool:
    """Whether the run went non-finite over it."""
    loss = run.series("loss/train").values
    return bool(len(loss)) and not np.isfinite(loss[-1])
