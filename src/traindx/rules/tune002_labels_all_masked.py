"""Batches or sequences have no valid label.

## What it sees

The share of targets that count, per batch. Any batch without one; more than 5 % such batches; or less than 1 % valid
targets over all. For models that predict their own text: sequences without any target that counts, if they are more
than 5 % (three or more of at least 16). Where nothing is padded, blocks may lie in one long prompt, and it is a remark.

## Why it matters

The mean over nothing is NaN: the loss shows nan (or 0.0), although the gradients are exactly zero and the weights are *not*
harmed. Samples whose answer was cut off by truncation, or whose response marker was not found, teach nothing at all.

## What else looks like this

- NUMR001: a NaN that does poison the weights. Here gradients stay finite.
- LOSS011: a loss of exactly 0.0 that is real.
- Masked-language models ignore 85 % of the targets by design: far from the limit, and a short sequence of theirs may well
  have none.

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
    needs={"batch/valid_targets | event:empty_targets | fact:data.empty_rows": 1},
    says={
        "": "{count:.0f} batches have no valid target, first at step {first}: their loss is a mean over nothing",
        "sparse": "only {share:.2%} of the targets are used by the loss",
        "rows": "{share:.0%} of the sequences ({empty:.0f} of {rows:.0f} checked) have no valid target: they teach nothing",
        "all": "the loss ignores every target of all {count:.0f} batches: nothing is being learned",
    },
    fix="Check the response template and the truncation (cut the prompt, not the answer); leave out samples without a label.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("NUMR001", "NUMR002", "NUMR008", "LOSS001", "LOSS011", "LOSS002", "GRAD004", "WIRE016"),
    at="loss target",
)
def labels_all_masked(
    run: Run,
    *,
    batches: float = 0.05,  # CATALOGUE TUNE002
    valid: float = 0.01,
    least_rows: int = 16,
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
    seen = facts.table(run, "data.empty_rows")
    rows, bare = (facts.number(seen.get(k), 0.0) for k in ("rows", "empty"))
    if rows >= least_rows and bare >= 3 and bare > batches * rows:
        severity = Severity.WARNING if seen.get("padded") else Severity.INFO
        yield Evidence({"share": bare / rows, "empty": bare, "rows": rows}, ("targets",), None, "rows", severity)


def _broke(run: Run) -> bool:
    """Whether the run went non-finite over it."""
    loss = run.series("loss/train").values
    return bool(len(loss)) and not np.isfinite(loss[-1])
