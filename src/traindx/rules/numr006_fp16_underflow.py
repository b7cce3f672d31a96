"""Small gradients become zero in float16: small gradients vanish below the smallest half-precision number.

## What it sees

Training forwards in float16 while no gradient scaler is used: an exact fact. And the precision trial: parameters
whose gradients hold at least `excess` more zeros in half precision than in float32, together more than `worth` of the
model.

## Why it matters

Below 6e-8 a float16 gradient is zero. Layers far from the loss lose their signal first; the run learns worse than in
float32 and nothing breaks.

## What else looks like this

- Zeros from ReLU and from unused embedding rows: they are there in float32 as well, so the trial subtracts them.
- bfloat16 has the range of float32: no scaler is needed.

## What to do

Use `torch.amp.GradScaler`, or bfloat16. With a scaler, start from a larger scale.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, outline
from traindx.finding import Confidence, Evidence
from traindx.rule import rule
from traindx.run import Run


@rule(
    "NUMR006",
    subject="half-precision",
    needs={"fact:amp.scaler | fact:trial.underflow": 1},
    says={
        "scaler": "the model trains in float16 without a gradient scaler: small gradients become zero",
        "trial": "gradients of {where} ({share:.0%} of the model) flush to zero in half precision",
    },
    fix="Use torch.amp.GradScaler, or bfloat16.",
    explains=("GRAD004", "LOSS009", "OPTM001", "GRAD001"),
)
def fp16_underflow(run: Run, *, excess: float = 0.2, worth: float = 0.1) -> Iterator[Evidence]:
    # CATALOGUE: a fifth more zeros, in tensors that hold more than a tenth of the parameters.
    if run.fact("amp.scaler") is False and outline.low_precision(run) == "float16":
        yield Evidence(steps=run.steps, say="scaler", confidence=Confidence.EXACT)
    lost = facts.table(run, "trial.underflow")
    names = tuple(str(n) for n, v in lost.items() if facts.number(v, 0.0) >= excess)
    share = outline.share(run, names)
    if names and not share < worth:
        yield Evidence(where=names, say="trial", facts={"share": share})
