"""Early layers receive almost no gradient.

## What it sees

The root mean square of each weight's gradient along the depth of the network: the first quarter below a thousandth of the
last over at least 50 steps. With plain SGD the early layers must also hardly move (less than 1e-6 of their size per step);
with Adam, whose steps are normalised, more than half of the entries must have a second moment below ten times ε, or the loss
must have learned nothing. A ratio that does no visible harm is a remark; so is one where the last layers, which do get their
gradient, move less than 1e-5 of their size per step as well: then the step size is what keeps the first ones still.

## Why it matters

The layers nearest to the input stay as they were initialised; the rest of the network learns on random features. Adam hides
it: its updates have full size, but their direction is noise.

## What else looks like this

- GRAD004: exactly zero or absent, not small: something is cut off or dead.
- ACTV003: saturated activations upstream are the usual reason.
- Embeddings (sparse gradients), frozen stems, LoRA's first matrix at step 0, zero-initialised residual branches.

## What to do

ReLU or GELU instead of sigmoid or tanh, residual connections, LayerNorm or BatchNorm, He or Xavier initialisation, shorter
back-propagation through time, a forget-gate bias of +1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.regime.curves import progress
from traindx.rule import rule
from traindx.run import Run


@rule(
    "GRAD001",
    needs={"grad_norm/param": 8},
    says={
        "": "gradients shrink to {ratio:.1e} of their size from the last to the first layers, and {where} hardly move "
        "({moves:.1e} a step)",
        "hidden": "gradients shrink to {ratio:.1e} of their size from the last to the first layers ({where}), and nothing "
        "is learned",
        "harmless": "gradients shrink to {ratio:.1e} of their size from the last to the first layers ({where})",
    },
    fix="Use ReLU or GELU, residual connections and normalisation, and He or Xavier initialisation.",
    explains=("LOSS002", "LOSS009"),
)
def vanishing_gradients(
    run: Run,
    *,
    ratio: float = 1e-3,  # CATALOGUE GRAD001; healthy nets reach .1
    still: float = 1e-6,
    idle: float = 1e-5,  # as OPTM001: below it the last layers do not learn either
    steps: int = 50,
    small_v: float = 0.5,
) -> Iterator[Evidence]:
    table = run.matrix("grad_norm/param")
    names = params.weights(run, table.names)
    sizes = params.rms(run, table, names)
    live = [i for i in range(len(names)) if np.any(sizes[:, i] > 0)]
    names, sizes = [names[i] for i in live], sizes[:, live]
    if len(names) < 4:
        return  # no depth to speak of
    late = table.steps >= regime.start(run)
    span = table.steps[late]
    if not len(span) or span[-1] - span[0] < steps:
        raise Unsure("too few steps", needs_steps=steps)
    quarter = max(1, len(names) // 4)
    # steps of another optimizer leave these parameters without a gradient
    late &= np.isfinite(sizes[:, :quarter]).any(axis=1) & np.isfinite(sizes[:, -quarter:]).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.nanmedian(sizes[late, :quarter], axis=1) / np.nanmedian(sizes[late, -quarter:], axis=1)
    shrink = shrink[np.isfinite(shrink)]
    if len(shrink) < 5 or np.quantile(shrink, 0.8) >= ratio:
        return
    found = float(np.median(shrink))
    early, seen = names[:quarter], (int(span[0]), int(span[-1]))
    if _moves(run, names[-quarter:]) < idle:  # no gradient is too small for what no layer does
        yield Evidence({"ratio": found}, tuple(early), seen, "harmless", Severity.INFO, Confidence.SUGGESTIVE)
    else:
        yield _judged(run, early, found, seen, still, small_v)


def _judged(run: Run, early: list[str], found: float, span: tuple[int, int], still: float, small_v: float) -> Evidence:
    where = tuple(early)
    moves = _moves(run, early)
    numbers = {"ratio": found, "moves": moves}
    adam = regime.adam_like(run)
    if adam is False and moves < still:
        return Evidence(numbers, where, span)
    if adam and _damped(run, early) > small_v:
        return Evidence(numbers, where, span)
    done = progress(regime.curve(run))
    if done is not None and (done.gain < 2 or done.relative < 0.05) and done.points >= 50:
        return Evidence(numbers, where, span, "hidden")
    return Evidence(numbers, where, span, "harmless", Severity.INFO, Confidence.SUGGESTIVE if adam is None else None)


def _moves(run: Run, names: list[str]) -> float:
    table = run.matrix("update_ratio/param")
    known = [n for n in names if n in table.names]
    if not known:
        return float("nan")
    values = params.columns(table, known)
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")


def _damped(run: Run, names: list[str]) -> float:
    table = run.matrix("adam_small_v/param")
    known = [n for n in names if n in table.names]
    values = params.columns(table, known) if known else np.empty((0, 0))
    return float(np.nanmedian(values)) if np.isfinite(values).any() else 0.0
