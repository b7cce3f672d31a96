"""The model is not taught where a text ends.

## What it sees

For models that predict the next token of padded sequences: the share of sequences whose last valid label is the end
token. If no end token is known, whether the last label is always the same id. Below 50 % the end is missing from the
labels: masked together with the padding (same id), or never appended. It is a warning in fine-tuning, and where the
inputs do end with the end token. It is also one where the script states an end token (a tokenizer, a table of words, a
constant) that no target ends with. Elsewhere it is a remark.

## Why it matters

A model that never saw an end does not stop. It answers well and then never stops.

## What else looks like this

- Pre-training on a stream of text cut into blocks: few blocks end with a text. Blocks without padding are not judged outside
  fine-tuning.
- Sequences that need no end, because their length is given otherwise: a remark that may be ignored.
- Truncation: long answers lose their end; if more than half are cut, the limit is too short.
- TUNE003: padding is counted.

## What to do

Give padding an id of its own, mask by `attention_mask` and not by id, and append the end token before tokenising.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE004",
    needs={"fact:data.eos_share": 1},
    says={
        "": "{share:.0%} of the sequences end with the end token among their labels{same}",
        "none": "the padded sequences do not end with a common token (at most {share:.0%} share one), so the model may not "
        "learn where a text ends{same}",
    },
    fix="Use a separate padding id, mask labels by attention_mask, and append the end token ({eos}) to every answer.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    at="loss ignored",
)
def eos_never_learned(run: Run, *, least: float = 0.5) -> Iterator[Evidence]:  # CATALOGUE TUNE004
    share = facts.number(run.fact("data.eos_share"), 1.0)
    token = facts.table(run, "data.token")
    pad, eos = facts.number(token.get("pad_id")), facts.number(token.get("eos_id"))
    tuned = regime.finetune(run)
    if not tuned and math.isnan(pad):
        raise Muted("not a fine-tuning run, and nothing is padded: blocks of a stream end anywhere")
    if share < least:
        known = not math.isnan(eos)
        same = "; padding has the same id and is ignored with it" if pad == eos else ""
        if not known and not math.isnan(pad):
            same = f"; if the padding (id {pad:.0f}) is also your end token, the loss ignores it"
        values = {"share": share, "same": same, "eos": f"id {eos:.0f}" if known else "eos"}
        # An end that is given and not asked for, or stated and nowhere used, contradicts itself; a config's default does not.
        meant = known and (facts.number(token.get("eos_given"), 0.0) > 0.9 or bool(token.get("eos_named")))
        severity = Severity.WARNING if tuned or meant else Severity.INFO
        yield Evidence(values, ("targets",), None, "" if known else "none", severity)
