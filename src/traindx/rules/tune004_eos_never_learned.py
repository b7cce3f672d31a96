"""The end of text is not among what is learned.

## What it sees

Fine-tuning runs on token sequences: the share of sequences whose last valid label is the end token. Below 50 % it is
missing from the labels: masked together with the padding (same id), or never appended.

## Why it matters

A model that never saw an end does not stop. It answers well and then goes on for ever.

## What else looks like this

- Pre-training on a stream of text cut into blocks: few blocks end with a text. Not judged outside fine-tuning.
- Truncation: long answers lose their end; if more than half are cut, the limit is too short.
- TUNE003: padding is counted.

## What to do

Give padding an id of its own, mask by `attention_mask` and not by id, and append the end token before tokenising.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE004",
    needs={"fact:data.eos_share": 1},
    says="{share:.0%} of the sequences end with the end token among their labels{same}",
    fix="Use a padding id of its own, mask labels by attention_mask, and append the end token ({eos}) to every answer.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def eos_never_learned(run: Run, *, least: float = 0.5) -> Iterator[Evidence]:  # CATALOGUE TUNE004
    if not regime.finetune(run):
        raise Muted("not a fine-tuning run: blocks of a stream end anywhere")
    share = facts.number(run.fact("data.eos_share"), 1.0)
    token = facts.table(run, "data.token")
    pad, eos = facts.number(token.get("pad_id")), facts.number(token.get("eos_id"))
    if share < least:
        same = "; padding has the same id and is ignored with it" if pad == eos else ""
        yield Evidence({"share": share, "same": same, "eos": f"id {eos:.0f}" if eos == eos else "eos"}, ("targets",))
