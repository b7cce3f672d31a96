"""Early layers receive almost no gradient.

## What it sees

The root mean square of each weight's gradient along the depth of the network: the first quarter below a thousandth of
the last over at least 50 steps. With plain SGD the early layers must also hardly move: less than 1e-6 of their size
per step. Adam normalises its steps, so there more than half of the entries must have a second moment below ten times
ε, or the loss must have learned nothing. If it was so before the first update, the architecture is the cause;
otherwise the learning rate broke it. A ratio that does no visible harm is a remark. So is one where the last layers,
which do get their gradient, move less than 1e-5 of their size per step: then the step size is the reason.

Through time: a recurrent layer passes on too little of its state per step (`model.recall`). Less than 1e-4 of the first
step is left at the end of a sequence. The weights must move and the loss stay flat. A remark where gates are as torch
starts them and nothing shows that the inputs tell the labels; silent where they do not.

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
from dataclasses import replace

import numpy as np

from traindx import course, facts, regime
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Floats, Run

FIRST = 3  # steps that show how the network was born


@rule(
    "GRAD001",
    needs={"grad_norm/param": 5},
    says={
        "": "gradients shrink to {ratio:.1e} of their size on the way to the first layers, and {where} hardly move "
        "({moves:.1e} of their size per step)",
        "hidden": "gradients shrink to {ratio:.1e} of their size on the way to the first layers ({where}), and the loss "
        "does not fall",
        "start": "from the first step on gradients shrink to {ratio:.1e} of their size on the way to the first layers, "
        "and {where} hardly move ({moves:.1e} of their size per step)",
        "time": "{where} cannot remember: after {length} steps of a sequence only {left:.0e} of the first step is left "
        "({keep:.2f} kept per step), and the loss does not fall",
        "harmless": "gradients shrink to {ratio:.1e} of their size on the way to the first layers ({where})",
    },
    fix={
        "": "Use ReLU or GELU, residual connections and normalisation, and He or Xavier initialisation.",
        "time": "Initialise recurrent matrices as orthogonal and set forget biases to +1 or more, or use shorter sequences.",
    },
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
    yield from _forgets(run, idle)
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
    for part in _networks(run, names):
        own = [names[i] for i in part]
        shrink = _shrink(sizes[:, part])
        seen, first = shrink[late & np.isfinite(shrink)], shrink[table.steps < FIRST]
        first = first[np.isfinite(first)]
        born = len(first) > 0 and bool(first[0] < ratio)  # no update has made it so
        if len(seen) < 5 or np.quantile(seen, 0.8) >= ratio:
            continue
        found, quarter = float(np.median(seen)), max(1, len(own) // 4)
        early, when = own[:quarter], (int(span[0]), int(span[-1]))
        if _moves(run, own[-quarter:]) < idle:  # no gradient is too small for what no layer does
            yield Evidence({"ratio": found}, tuple(early), when, "harmless", Severity.INFO, Confidence.SUGGESTIVE)
        else:
            told = _judged(run, early, found, when, still, small_v)
            yield replace(told, say="start") if born and not told.say else told


def _networks(run: Run, names: list[str]) -> list[list[int]]:
    """The weights of each network along its depth: players with objectives of their own are not the layers of one."""
    if not regime.adversarial(run):
        return [list(range(len(names)))]
    owners = [n.split(".", 1)[0] for n in names]
    parts = [[i for i, o in enumerate(owners) if o == owner] for owner in dict.fromkeys(owners)]
    return [part for part in parts if len(part) >= 4]


def _shrink(sizes: Floats) -> Floats:
    """The first quarter of the columns over the last, per row; NaN where a row lacks one of them."""
    quarter = max(1, sizes.shape[1] // 4)
    # steps of another optimizer leave these parameters without a gradient
    both = np.isfinite(sizes[:, :quarter]).any(axis=1) & np.isfinite(sizes[:, -quarter:]).any(axis=1)
    every = np.full(len(sizes), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        every[both] = np.nanmedian(sizes[both, :quarter], axis=1) / np.nanmedian(sizes[both, -quarter:], axis=1)
    return every


def _forgets(run: Run, idle: float, left: float = 1e-4) -> Iterator[Evidence]:
    """A recurrent layer whose state fades long before a sequence ends, in a run that moves its weights and learns nothing.

    Gates may learn to open, and many tasks need no memory: without a loss that stands still it says nothing.
    """
    layers = {n: v for n, v in facts.table(run, "model.recall").items() if isinstance(v, dict)}
    faint = {n: facts.number(v.get("keep")) ** facts.number(v.get("length"), 0.0) for n, v in layers.items()}
    faint = {n: v for n, v in faint.items() if v < left}
    moving = run.series("update_ratio").finite().values
    if not faint or not course.learned(run).no or not len(moving) or np.median(moving) < 10 * idle:
        return
    probe = {k: facts.number(v) for k, v in facts.table(run, "data.label_probe").items()}
    told = (probe.get("score", np.nan) - probe.get("null_mean", np.nan)) / max(probe.get("null_sd", np.nan), 1e-6)
    if told < 3:
        return  # nothing to be remembered: the labels have nothing to do with the input
    where = min(faint, key=lambda n: faint[n])
    layer = layers[where]
    numbers = {"left": max(faint[where], 1e-99), "length": layer["length"], "keep": layer["keep"]}
    # torch starts gates half open and plain matrices at a largest singular value of about 1.15
    shut = layer["keep"] < (0.4 if layer.get("kind") in ("LSTM", "GRU") else 0.9)
    yield Evidence(numbers, (where,), run.steps, "time", confidence=None if shut or told >= 3 else Confidence.SUGGESTIVE)


def _judged(run: Run, early: list[str], found: float, span: tuple[int, int], still: float, small_v: float) -> Evidence:
    where = tuple(early)
    moves = _moves(run, early)
    numbers = {"ratio": found, "moves": moves}
    adam = regime.adam_like(run)
    if adam is False and moves < still:
        return Evidence(numbers, where, span)
    if adam and _damped(run, early) > small_v:
        return Evidence(numbers, where, span)
    if course.learned(run).no:
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
