"""Samples of a batch influence each other: the output for one sample depends on the other samples of its batch.

## What it sees

The dependency trial in eval mode: the gradient of sample k's output with respect to other samples, over that with
respect to itself, above `ratio`. A softmax inside the model that runs over the batch axis. Recurrent and attention
layers with `batch_first=False` whose first axis holds the samples. The input of a layer is a plain view of another
tensor with its axes in another order: `x.view(n, c, h, w)` of (n, h, w, c). Its axes are mixed up; a warning where the
batch axis stays in front. Or, in passing, outputs whose columns over the batch sum to one: a softmax along the batch
axis.

## Why it matters

The model answers with the help of its neighbours and fails on single inputs, in another order, at another batch size.
Overfitting one batch still works, so that test does not find it.

## What else looks like this

- BatchNorm in train mode mixes by design; the trial runs in eval mode, where it does not.
- Losses that compare samples with each other (contrastive, in-batch negatives) mix in the loss, not in the model.
- One long sequence with a target for every step, and batches with time in front: there axis 0 is time.
- Capacity limits of expert routers and graph batches: info in such models.

## What to do

Check every `dim=` of softmax, mean and norm, and every `view`, `reshape`, `transpose` and `permute` around the batch
axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traindx import facts
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE009",
    needs={
        "fact:trial.batch_mixing | fact:loss.column_probabilities | fact:model.head_activation | fact:model.batch_softmax | "
        "fact:model.time_first | fact:model.scrambled": 1
    },
    says={
        "": "a sample's output depends on other samples of the batch (gradient ratio {ratio:.2g})",
        "inside": "a softmax inside the model runs over the batch axis: {where}",
        "time": "{where} takes axis 0 for time (batch_first=False), but was given {batch} samples of {steps} steps: it runs "
        "over the batch",
        "scrambled": "{where} gets ({to}), a view of ({from_}): view does not move axes, so they are mixed up",
        "softmax": "the outputs sum to one over the batch: softmax is applied along the batch axis",
    },
    fix={
        "": "Check dim= of softmax, mean and norm, and every reshape or transpose that touches the batch axis.",
        "inside": "Check the dim= of that softmax: attention normalises over keys, dim=-1.",
        "time": "Pass batch_first=True, or transpose the input to (time, batch, features).",
        "scrambled": "Use permute or transpose to move axes; view and reshape only regroup numbers in the same order.",
        "softmax": "Apply softmax over the classes, dim=-1 (and only if the loss does not do it itself).",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS009", "LOSS010", "EVAL007", "EVAL003", "LOSS011", "LOSS002", "EVAL004", "GRAD001"),
)
def batch_mixing(run: Run, *, ratio: float = 1e-6) -> Iterator[Evidence]:
    # [x] 0 in plain models, .098 for softmax over the batch, 1.0 for a transposed reshape, 0 for BatchNorm in eval mode.
    inside = () if run.fact("loss.kind") == "contrastive" or run.fact("ssl") else facts.strings(run, "model.batch_softmax")
    for module, shapes in facts.table(run, "model.scrambled").items():
        old, new = (_sizes(shapes, key) for key in ("from", "to"))
        if old and new:
            view = {"from_": " × ".join(old), "to": " × ".join(new)}
            level = Severity.CRITICAL if old[0] != new[0] else Severity.WARNING
            yield Evidence(view, (str(module),), run.steps, "scrambled", level)
            return
    if (run.fact("loss.column_probabilities") and not run.fact("loss.probabilities")) or _over_the_batch(run):
        yield Evidence(where=facts.strings(run, "loss.site"), steps=run.steps, say="softmax")
    elif swapped := _over_samples(run):
        batch, steps = swapped[1]
        told = {"batch": batch, "steps": steps}
        yield Evidence(where=swapped[0], steps=run.steps, say="time", confidence=Confidence.STRONG, facts=told)
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


def _sizes(shapes: object, key: str) -> list[str]:
    sizes = shapes.get(key) if isinstance(shapes, Mapping) else None
    return [f"{n:.0f}" for n in facts.numbers(sizes)]


def _over_the_batch(run: Run) -> bool:
    """Whether the last activation is a (log-)softmax along the first axis of (N, C) outputs."""
    head, shape = facts.table(run, "model.head_activation"), run.fact("loss.input_shape")
    flat = isinstance(shape, list | tuple) and len(shape) == 2
    return flat and head.get("kind") in ("softmax", "log_softmax") and head.get("dim") == 0


def _over_samples(run: Run) -> tuple[tuple[str, ...], tuple[int, int]] | None:
    """Modules that take axis 0 for time while it holds the samples, with its sizes: as many as the loss has targets."""
    target = run.fact("loss.target_shape")
    if not isinstance(target, list | tuple) or not target:
        return None
    sizes = {n: facts.pair(v) for n, v in facts.table(run, "model.time_first").items()}
    # One sequence is as long as it has targets; targets per step and sample have both sizes.
    wrong = {n: (a, b) for n, (a, b) in sizes.items() if a == target[0] != b and b > 1 and (len(target) == 1 or target[1] != b)}
    if not wrong:
        return None
    a, b = next(iter(wrong.values()))
    return tuple(wrong), (int(a), int(b))
