"""Tied weights are no longer tied: parameters that were one tensor have become two.

## What it sees

Groups of parameter names that shared storage at the first step, or that the model declares as tied, and that no
longer share it (`model.tying_broken`). Pointers are facts.

## Why it matters

A language model whose output matrix has come apart from its embedding trains two halves of a design meant as one;
after loading a checkpoint the output half is random. Typical causes: resizing the embedding,
`load_state_dict(assign=True)`, moving modules one by one, re-assigning `.weight`.

## What else looks like this

- FSDP and tensor parallelism keep copies with synchronised gradients: not judged there.
- A model that never tied its weights: nothing was shared at the start.

## What to do

Tie again after the change: `head.weight = embedding.weight`, or `model.tie_weights()`, before the optimizer is built.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import outline
from traindx.finding import Confidence, Evidence, Muted
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE012",
    needs={"fact:model.tying_broken": 1},
    says="{where} were tied and no longer share their values",
    fix="Tie them again (head.weight = embedding.weight or model.tie_weights()) and build the optimizer after that.",
    confidence=Confidence.EXACT,
    explains=("LOSS006", "LOSS010", "TUNE008"),
)
def tying_broken(run: Run) -> Iterator[Evidence]:
    if run.fact("distributed") == "fsdp":
        raise Muted("sharded parameters are copies by design")
    groups = run.fact("model.tying_broken") or ()
    for group in groups if isinstance(groups, list | tuple) else ():
        if names := outline.named(group):
            yield Evidence(where=names, steps=run.steps)
