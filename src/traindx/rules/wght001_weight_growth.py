"""Weights grow without bound: the norm of a weight matrix keeps growing.

## What it sees

The norm of a weight matrix is more than `growth` times its value after 1 % of the run. It still rises, at least as fast
late as early (the slow √t growth without weight decay flattens out). It exceeds any usual scale: a gain of more than
`gain` per layer. As info: a largest singular value far above that of a random matrix of the same size and rising, and
weights with very heavy tails.

## Why it matters

Weights that grow in proportion to time end in overflow, saturated attention and logits that nothing can move.

## What else looks like this

- Growth from a tiny initialisation up to a usual scale: the gain shows which it is.
- Layers followed by a norm grow harmlessly: their scale does not matter, but the effective learning rate falls.
- Embeddings, norm gains and adapters have their own scales: left out.

## What to do

Weight decay of 0.01 to 0.1, a third of the learning rate, clipping; query-key normalisation for attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, k_of_m, rising

_LEAST = 5  # looks after the first percent of a run: a norm has no noise, and looks grow rare as a run grows long


@rule(
    "WGHT001",
    needs={"weight_norm/param": 8},
    says={
        "": "the weights of {where} grew {ratio:.0f}× since step {first} and still grow",
        "spectral": "the largest singular value of {where} is {ratio:.0f}× that of a random matrix of its size, and rises",
        "tails": "the weights of {where} have very heavy tails (kurtosis {kurtosis:.0f})",
    },
    fix="Use weight decay of 0.01 to 0.1, divide the learning rate by 3, or clip gradients.",
    explains=("ACTV004", "ACTV007", "NUMR004", "LOSS008"),
    at="optimizer rate",
)
def weight_growth(
    run: Run,
    *,
    growth: float = 10.0,  # CATALOGUE
    gain: float = 5.0,  # [def] He initialisation has a gain of 1.41, tanh 1.67; three times that is no initialisation any more
    spectral: float = 20.0,  # CATALOGUE
    tails: float = 50.0,  # CATALOGUE; a Gaussian has 3
) -> Iterator[Evidence]:
    norms, shapes = run.matrix("weight_norm/param"), outline.shapes(run)
    span = int(norms.steps[-1] - norms.steps[0])
    after = norms.steps >= norms.steps[0] + span // 100
    for name, values in norms.columns():
        known = after & np.isfinite(values)
        if not _ours(run, name) or np.count_nonzero(known) < _LEAST:
            continue
        steps, late = norms.steps[known], values[known]
        base, now = float(late[0]), float(np.median(late[-2:]))
        middle = float(np.interp((steps[0] + steps[-1]) / 2, steps, late))
        steady = late[-1] - middle >= 0.7 * (middle - base)  # √t would give .41
        if base > 0 and now > growth * base and steady and rising(late) and _gain(shapes.get(name), now) > gain:
            yield Evidence(where=(name,), steps=(int(steps[0]), int(steps[-1])), facts={"ratio": now / base})
    yield from _remarks(run, shapes, spectral, tails)


def _ours(run: Run, name: str) -> bool:
    special = (*facts.strings(run, "model.embeddings"), *facts.strings(run, "model.norm_gains"))
    return name not in special and name not in facts.strings(run, "model.adapters") and outline.is_matrix(run, name)


def _gain(sizes: tuple[int, ...] | None, norm: float) -> float:
    """RMS·√fan_in of a weight with this norm; infinite when its size is unknown."""
    if not sizes or len(sizes) < 2:
        return math.inf
    return norm / math.sqrt(math.prod(sizes)) * math.sqrt(math.prod(sizes[1:]))


def _remarks(run: Run, shapes: dict[str, tuple[int, ...]], spectral: float, tails: float) -> Iterator[Evidence]:
    sigma, norms = run.matrix("weight_sigma/param"), outline.latest(run.matrix("weight_norm/param"))
    for name, values in sigma.columns():
        sizes = shapes.get(name, ())
        if len(sizes) != 2 or not norms.get(name):
            continue
        random = norms[name] / math.sqrt(math.prod(sizes)) * (math.sqrt(sizes[0]) + math.sqrt(sizes[1]))
        ratio = finite_median(values[-3:]) / random
        if ratio > spectral and rising(values):
            yield Evidence(where=(name,), say="spectral", severity=Severity.INFO, facts={"ratio": ratio})
    heavy = {
        n: float(v[np.isfinite(v)][-1])
        for n, v in run.matrix("weight_kurtosis/param").columns()
        if k_of_m(v[np.isfinite(v)] > tails) and _ours(run, n) and math.prod(shapes.get(n, (0,))) >= 1000
    }
    if heavy:
        where = tuple(sorted(heavy, key=lambda n: -heavy[n]))
        yield Evidence(where=where, say="tails", severity=Severity.INFO, facts={"kurtosis": heavy[where[0]]})
