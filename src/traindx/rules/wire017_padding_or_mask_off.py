"""Padding or an attention mask is handled wrongly: padded positions take part, or valid ones are masked away.

## What it sees

Key padding masks are compared with the padding of the input (`model.pad_mask`). More than `inverted` of the valid
positions masked means that the mask is inverted or shifted. Padding attended by unmasked attention is a warning when at
least `padding` of the tokens are padding. A mean over all positions of sequences with at least `pooled` of padding,
without a mask, is a warning too. It is a remark where the padding's own vector is zero. And the padding trial: content
under the mask must not change valid outputs.

## Why it matters

torch marks positions to *ignore* with True in `key_padding_mask`, other libraries mark positions to *keep*. An
inverted mask trains on padding alone; a missing one makes every answer depend on how long its neighbours in the batch
are.

## What else looks like this

- Left padding or packed sequences: the mask follows the padding, wherever that is.
- Padding counted in the loss: `TUNE003`. Leaks from the future: `WIRE013`.

## What to do

`key_padding_mask = tokens == pad_id` for torch; reduce over valid positions only: `(x * keep).sum(1) / keep.sum(1)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE017",
    needs={"fact:model.pad_mask | fact:model.pooling | fact:trial.pad_leak": 1},
    says={
        "inverted": "{share:.0%} of the valid positions are masked and {attended:.0%} of the padding is attended: the "
        "mask is inverted",
        "unmasked": "{attended:.0%} of the padded positions ({padding:.0%} of the tokens) are attended like real tokens",
        "pooled": "a mean over positions includes the padding ({padding:.0%} of the tokens): the same text gets another "
        "result in a longer batch",
        "leak": "changing the padded inputs changes valid outputs by {change:.1%}",
    },
    fix={
        "inverted": "key_padding_mask must be True where a position is ignored: tokens == pad_id.",
        "unmasked": "Pass key_padding_mask=(tokens == pad_id) to the attention layers.",
        "pooled": "Average over the tokens only: (h * keep).sum(1) / keep.sum(1), with keep = (tokens != pad)[..., None].",
        "leak": "Mask the padding in attention and in every mean or max over positions.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("ACTV005", "GRAD004", "LOSS009", "EVAL007", "LOSS003"),
)
def padding_or_mask_off(
    run: Run,
    *,
    inverted: float = 0.5,  # [def] a right mask hides no valid position
    padding: float = 0.05,  # [def] below a twentieth of padding an unmasked attention hardly matters
    pooled: float = 0.1,  # [def] a mean is off by that share; attention can learn to look away, a mean cannot
    change: float = 1e-5,  # above float32 rounding of a few layers
) -> Iterator[Evidence]:
    mask = facts.table(run, "model.pad_mask")
    hidden, attended = (facts.number(mask.get(k), 0.0) for k in ("valid_masked", "pad_attended"))
    amount = run.series("batch/pad_share").finite().values
    padded = float(np.median(amount)) if len(amount) else 0.0
    if hidden > inverted:
        yield Evidence(steps=run.steps, say="inverted", facts={"share": hidden, "attended": attended})
    elif attended > 0.95 and padded >= padding:
        shown = {"attended": attended, "padding": padded}
        yield Evidence(steps=run.steps, say="unmasked", severity=Severity.WARNING, facts=shown)
    elif padded >= pooled and _pooled(run):
        stated = bool(facts.table(run, "data.token").get("pad_stated"))  # its vector is zero: only the length is wrong
        level = Severity.INFO if stated else Severity.WARNING
        yield Evidence({"padding": padded}, (), run.steps, "pooled", level, Confidence.STRONG)
    moved = facts.number(facts.table(run, "trial.pad_leak").get("change"), 0.0)
    if moved > change:
        yield Evidence(say="leak", severity=Severity.WARNING, facts={"change": moved})


def _pooled(run: Run) -> bool:
    """Whether every mean over positions goes over all of them, padding included, and it is known which token that is."""
    means = facts.counts(run.fact("model.pooling"))
    known = facts.table(run, "data.token").get("pad_id") is not None
    return known and means.get("bare", 0) > 0 and not means.get("masked")
