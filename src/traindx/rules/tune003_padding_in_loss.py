"""Padding, or the prompt, counts as something to be learned.

## What it sees

The share of targets that equal the padding id and are not ignored: above 1 %. Where targets are no tokens but tags, one
per position, the share of those that stand where the input is padding (their id says nothing there). Not judged where
padding and end-of-text share one id and each row holds at most one of them, nor where the script weighs every target
itself (`reduction="none"`).

## Why it matters

Padding is easy to predict. The loss falls fast to a flattering value that depends on how much padding a batch holds, and
the gradient is spent on it. A model that also learns the prompts spends its steps on questions, and its loss says little
about the answers.

## What else looks like this

- PERF009: padding is ignored by the loss and only costs time.
- TUNE004: the opposite mistake, the end of text ignored together with the padding.
- A real token that happens to have the padding's id 0: check the tokenizer.

## What to do

Set labels to −100 where `attention_mask == 0`, or pass `ignore_index=pad_id`. Do the same with the prompt: with TRL,
give `prompt` and `completion`, or set `assistant_only_loss=True`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE003",
    needs={"fact:data.pad_label_share | fact:data.pad_position_share | fact:data.prompt_share": 1},
    says={
        "": "{share:.0%} of the targets used by the loss are padding (id {pad})",
        "position": "{share:.0%} of the targets used by the loss are at positions where the input is padding",
        "prompt": "{share:.0%} of the targets used by the loss belong to the prompt, not to the answer",
    },
    fix={
        "": "Set these labels to -100 (where attention_mask is 0), or pass ignore_index={pad}.",
        "position": "Pad the targets with -100, which the loss ignores, and leave these positions out of the accuracy too.",
        "prompt": "If the model should learn only answers, set the labels of the prompt to -100 (with TRL give prompt and "
        "completion, or assistant_only_loss=True).",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("LOSS010", "EVAL006"),
    at="loss ignored",
)
def padding_in_loss(
    run: Run,
    *,
    most: float = 0.01,  # CATALOGUE TUNE003
    prompt: float = 0.2,  # [def] share of the targets in the prompt; the mark itself may count
    guessed: float = 0.2,  # share of the targets from which a guessed id is believed
    alike: float = 0.9,  # classes per token of the vocabulary; fewer, and targets are another alphabet than inputs
) -> Iterator[Evidence]:
    if run.fact("loss.reduction") == "none":
        raise Blind("the script weighs the loss of every target itself", "loss.reduction")
    asked = facts.number(run.fact("data.prompt_share"), 0.0)
    if asked > prompt:
        yield Evidence({"share": asked}, ("targets",), say="prompt", confidence=Confidence.SUGGESTIVE)
    beside = facts.number(run.fact("data.pad_position_share"), 0.0)
    if beside > most:
        yield Evidence({"share": beside}, ("targets",), say="position")
        return
    share = facts.number(run.fact("data.pad_label_share"), 0.0)
    token = facts.table(run, "data.token")
    if facts.number(run.fact("loss.classes"), math.inf) < alike * facts.number(token.get("vocab"), 0.0):
        return
    pad, eos = facts.number(token.get("pad_id")), facts.number(token.get("eos_id"))
    length = run.series("batch/length").finite().values
    shared_id = pad == eos and len(length) > 0 and share <= 1.5 / max(float(length.mean()), 1.0)  # the one end of each text
    if share > most and not shared_id:
        # A padding id that the model does not state was guessed from the batches. A frequent token may look like it in a few
        # rows; one that makes up much of the targets and stands nowhere but at the ends of rows is padding.
        severity = Severity.INFO if token.get("pad_stated") is False and share < guessed else None
        yield Evidence({"share": share, "pad": f"{pad:.0f}" if pad == pad else "pad_id"}, ("targets",), severity=severity)
