"""Mixed batch: the output for one sample depends on the other samples of its batch.

## What it sees

The dependency trial in eval mode: the gradient of sample k's output with respect to other samples, over that with
respect to itself, above `ratio`. A softmax inside the model that runs over the batch axis. Or, in passing, outputs
whose columns over the batch sum to one: a softmax along the batch axis.

## Why it matters

The model answers with the help of its neighbours and fails on single inputs, in another order, at another batch size.
Overfitting one batch still works, so that test does not find it.

## What else looks like this

- BatchNorm in train mode mixes by design; the trial runs in eval mode, where it does not.
- Losses that compare samples with each other (contrastive, in-batch negatives) mix in the loss, not in the model.
- Capacity limits of expert routers and graph batches: info in such models.

## What to do

Check every `dim=` of softmax, mean and norm, and every `view`, `reshape`, `transpose` and `permute` around the batch
axis.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE009",
    needs={
        "fact:trial.batch_mixing | fact:loss.column_probabilities | fact:model.head_activation | fact:model.batch_softmax": 1
    },
    says={
        "": "a sample's output depends on other samples of the batch (gradient ratio {ratio:.2g})",
        "inside": "a softmax inside the model runs over the batch axis: {where}",
        "softmax": "the outputs sum to one over the batch: softmax is applied along the batch axis",
    },
    fix={
        "": "Check dim= of softmax, mean and norm, and every reshape or transpose that touches the batch axis.",
        "inside": "Check the dim= of that softmax: attention normalises over keys, dim=-1.",
        "softmax": "Apply softmax over the classes, dim=-1 (and only if the loss does not do it itself).",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS009", "EVAL007", "EVAL003", "LOSS011"),
)
def batch_mixing(run: Run, *, ratio: float = 1e-6) -> Iterator[Evidence]:
    # [x] 0 in plain models, .098 for softmax over the batch, 1.0 for a transposed reshape, 0 for BatchNorm in eval mode.
    inside = () if run.fact("loss.kind") == "contrastive" or run.fact("ssl") else facts.strings(run, "model.batch_softmax")
    if (run.fact("loss.column_probabilities") and not run.fact("loss.probabilities")) or _over_the_batch(run):
        yield Evidence(where=facts.strings(run, "loss.site"), steps=run.steps, say="softmax")
    elif inside:
        yield Evidence(where=inside, steps=run.steps, say="inside", confidence=Confidence.STRONG)
    elif "trial.batch_mixing" not in run.facts:
        raise Blind(
            "only a softmax over the batch could be ruled out; the dependency trial sees the rest", "trial.batch_mixing"
        )
    measured = facts.table(run, "trial.batch_mixing")
    found = facts.number(measured.get("ratio"), 0.0)
    if found > ratio:
        mixes = bool(len(run.matrix("expert_load/expert"))) or facts.has_layer(run, "Graph", "GCN", "GAT", "MessagePassing")
        yield Evidence(
            where=(str(measured["module"]),) if measured.get("module") else (),
            severity=Severity.INFO if mixes else None,
            facts={"ratio": found},
        )


def _over_the_batch(run: Run) -> bool:
    """Whether the last activation is a (log-)softmax along the first axis of (N, C) outputs."""
    head, shape = facts.table(run, "model.head_activation"), run.fact("loss.input_shape")
    flat = isinstance(shape, list | tuple) and len(shape) == 2
    return flat and head.get("kind") in ("softmax", "log_softmax") and head.get("dim") == 0
