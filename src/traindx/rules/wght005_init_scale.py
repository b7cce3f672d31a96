"""Initial weights have the wrong scale: the first weights give the network a gain it cannot train with.

## What it sees

`model.init_gain`, RMS·√fan_in of every weight before the first step: 1.41 for He, 1 for linear and SELU, 1.67 for tanh,
0.58 for torch's default. At least two hidden layers are beyond three times (or below a third of) that range, *and* it
has a consequence. Activations have an overall gain outside 10^±2 from the first layer to the last, or the first loss is
far above chance.

## Why it matters

A gain of 8 instead of 1 per layer makes the first loss hundreds of times too large; the first updates then destroy
more than they teach. A gain of 0.1 lets the signal die within a few layers.

## What else looks like this

- Norm layers make the scale irrelevant: then there is no consequence, and nothing is said.
- Small last layers, muP, fixed embeddings: by design; the last layer is not counted.
- Pretrained weights: not judged. Unscaled inputs: `DATA002`.

## What to do

`nn.init.kaiming_normal_` for ReLU, `xavier_uniform_` for tanh, a deviation of 0.02 for transformers, residual
branches scaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, outline, regime
from traindx.finding import Evidence, Muted
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WGHT005",
    needs={"fact:model.init_gain": 1},
    says={
        "large": "{count} layers start with weights up to {times:.0f}× too large, and {consequence}: {where}",
        "small": "{count} layers start with weights up to {times:.0f}× too small, and {consequence}: {where}",
    },
    fix="Initialise with kaiming_normal_ (ReLU) or xavier_uniform_ (tanh); 0.02 for transformers.",
    explains=("ACTV004", "LOSS010", "LOSS006", "GRAD001", "ACTV003"),
    at="written|model",
)
def init_scale(
    run: Run,
    *,
    factor: float = 3.0,  # CATALOGUE: off by more than three
    layers: int = 2,  # CATALOGUE: in at least two layers
    total: float = 100.0,  # CATALOGUE: forward gain outside 1e-2 … 1e2
    excess: float = 3.0,  # nats of first loss above ln C (LOSS010's error level)
) -> Iterator[Evidence]:
    if regime.finetune(run):
        raise Muted("the weights were trained before")
    gains = {str(n): facts.number(v, 0.0) for n, v in facts.table(run, "model.init_gain").items()}
    hidden = {n: g for n, g in gains.items() if g > 0 and outline.is_hidden(run, n)}
    forward = _forward_gain(run)
    high = {n: g / 1.67 for n, g in hidden.items() if g > factor * 1.67}
    low = {n: 0.577 / g for n, g in hidden.items() if g < 0.577 / factor}
    over = _excess(run)
    full, times = _saturated(run), _times_the_mean(run)
    if len(high) >= layers and (forward > total or over > excess or full or times > total):
        loss = (
            f"the first loss is {over:.1f} nats above chance"
            if over > excess
            else f"the outputs of {full} sit at their limits"
            if full
            else f"the first loss is {times:.0f} times that of answering the mean"
        )
        yield _evidence(run, "large", high, f"the signal grows {forward:.0f}×" if forward > total else loss)
    elif len(low) >= layers and forward < 1 / total:
        yield _evidence(run, "small", low, f"the signal fades to {forward:.1g}")
    elif len(low) >= layers and (left := _never_came_up(run)) < 1 / total:
        yield _evidence(run, "small", low, f"the last hidden layer still passes on {left:.1g} of the input's size")


def _evidence(run: Run, say: str, off: dict[str, float], consequence: str) -> Evidence:
    where = tuple(sorted(off, key=lambda n: -off[n]))
    start = run.steps[0] if run.steps else 0
    seen = {"count": len(off), "times": off[where[0]], "consequence": consequence}
    return Evidence(where=where, steps=(start, start), say=say, facts=seen)


def _forward_gain(run: Run) -> float:
    """RMS of the last hidden layer's output over the first one's, at the first look; 1 when unknown."""
    rms = run.matrix("act_rms/module")
    if not len(rms):
        return 1.0
    kinds = outline.classes(run)
    if sum("norm" in kind.lower() for kind in kinds.values()) >= 2:
        return 1.0  # each of them brings the signal back to one: the sizes of layers make no chain
    head = outline.last_called(run)
    names = [n for n in rms.names if n != head and (not kinds or kinds.get(n, "").startswith(("Linear", "Conv")))]
    first = [v for n in names if math.isfinite(v := float(rms.values[0, rms.place[n]])) and v > 0]
    return first[-1] / first[0] if len(first) >= 3 else 1.0


def _never_came_up(run: Run) -> float:
    """The larger of the first and the last size of the last hidden layer's output, over the input's; 1 when unknown."""
    rms, head = run.matrix("act_rms/module"), outline.last_called(run)
    size = facts.number(facts.table(run, "data.input_stats").get("std"), 0.0)
    kinds = outline.classes(run)
    names = [n for n in rms.names if n != head and kinds.get(n, "").startswith(("Linear", "Conv"))]
    if len(rms) < 2 or not names or not size > 0:
        return 1.0
    seen = rms.values[:, rms.place[names[-1]]]
    seen = seen[np.isfinite(seen)]
    return float(max(seen[0], seen[-1])) / size if len(seen) >= 2 and seen[0] > 0 else 1.0


def _saturated(run: Run) -> str:
    """A tanh layer whose outputs are at their limits at the first look; empty when there is none."""
    rms, kinds = run.matrix("act_rms/module"), {**outline.classes(run), **facts.table(run, "model.activations")}
    first = {n: float(v[0]) for n, v in rms.columns() if len(v) and str(kinds.get(n, "")).lower() == "tanh"}
    return next((n for n, v in first.items() if v > 0.9), "")  # the level of ACTV003


def _excess(run: Run) -> float:
    chance, losses = regime.chance_level(run), regime.curve(run).values[:3]
    return float(np.median(losses)) - chance if chance is not None and len(losses) else 0.0


def _times_the_mean(run: Run) -> float:
    """The first squared error over the variance of the target; 1 where it is another loss or the variance is not known."""
    spread = regime.target_variance(run) if run.fact("loss.kind") == "mse" and regime.plain_loss(run) else None
    losses = regime.curve(run).values[:3]
    return float(np.median(losses)) / spread[0] if spread is not None and spread[0] > 0 and len(losses) else 1.0
