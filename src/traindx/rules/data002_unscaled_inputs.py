"""Inputs are not scaled: they are far from unit scale, off centre, or have features of very different size.

## What it sees

Mean, deviation and range of the training inputs over at least 200 samples, as
the model gets them: a deviation outside .05 … 20, a mean more
than five deviations from zero, features whose deviations differ by more than 100 times, whole numbers up to 255 (pixels
never divided), or a largest value below .005 (divided twice). It is a warning while the first loss is more than 1 nat
above chance, or while the loss has not come down. If the run learns well, it is a remark.

## Why it matters

Layers are initialised for inputs of unit size. Inputs of size 100 give logits of size 100: a huge first loss, huge first
gradients, dead units. Tiny inputs give tiny gradients. A feature 1,000 times larger than the others is the only one that is
learned.

## What else looks like this

- WGHT005: the weights, not the inputs, have the wrong size. Standardise a copy of one batch: if the excess of the first
  loss goes away, it was the data.
- Networks whose first layer normalises (BatchNorm, LayerNorm): then the scale of the input does not matter, and this rule
  is muted.
- Token ids: they have no scale and are not looked at. Sparse bags of words have a small deviation and a large maximum:
  quiet.

## What to do

Subtract the mean and divide by the deviation of the *training* set, per channel or feature, in one function that validation
and deployment use too. Pixels: divide by 255 once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Muted, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@dataclass(frozen=True)
class _Scale:
    mean: float
    std: float
    lo: float
    hi: float
    n: float


@rule(
    "DATA002",
    needs={"fact:data.input_stats | fact:data.given_stats": 1},
    says={
        "pixels": "inputs are whole numbers up to {hi:.0f} (standard deviation {std:.3g}): pixels that were never divided "
        "by 255",
        "twice": "the largest input is {hi:.2g}: scaled down twice?",
        "large": "inputs have a standard deviation of {std:.3g} (more than {most:g})",
        "small": "inputs have a standard deviation of {std:.2g} (less than {least:g}) and reach only {hi:.2g}",
        "offset": "inputs have a mean of {mean:.3g} and a standard deviation of {std:.2g}: they are {offset:.0f} standard "
        "deviations from zero",
        "uneven": "the standard deviations of features differ by a factor of {ratio:.0f} (from {where})",
    },
    fix={
        "": "Standardise with the training set's mean {mean:.3g} and standard deviation {std:.3g}; use the same "
        "numbers for validation.",
        "pixels": "Divide by 255, then subtract {mean_255:.3f} and divide by {std_255:.3f}; the same for validation.",
        "twice": "Divide by 255 only once.",
        "uneven": "Standardise every feature with its own training mean and standard deviation.",
    },
    confidence=Confidence.STRONG,
    explains=(
        "LOSS010",
        "ACTV004",
        "WGHT005",
        "ACTV001",
        "ACTV003",
        "ACTV005",
        "GRAD001",
        "GRAD002",
        "GRAD004",
        "LOSS002",
        "LOSS009",
        "LOSS011",
        "EVAL004",
    ),
    at="loader data|given",
)
def unscaled_inputs(
    run: Run,
    *,
    least: float = 0.05,  # CATALOGUE DATA002
    most: float = 20.0,
    off_centre: float = 5.0,
    uneven: float = 100.0,
    least_samples: int = 200,  # a deviation is known to 5 % then
) -> Iterator[Evidence]:
    given = facts.table(run, "data.given_stats")  # the script may scale what its loader brings, up or down
    found = given or facts.table(run, "data.input_stats")
    scale = _Scale(*(facts.number(found.get(k)) for k in ("mean", "std", "min", "max", "n")))
    if not math.isfinite(scale.mean) or not math.isfinite(scale.std):
        raise Unsure("the inputs had no finite mean and deviation")
    if scale.n < least_samples:
        raise Unsure(
            f"{scale.n:.0f} samples were seen and {least_samples} are needed",
            needs_steps=_more_steps(run, scale.n, least_samples),
        )
    layers = [k for k in facts.layers(run) if k not in facts.PASSIVE]
    if layers and "Norm" in layers[0]:
        raise Muted("the model normalises its own input")
    if (spread := facts.number(run.fact("data.usual_spread"), 0.0)) and _few_far(run) and least <= spread <= most < scale.std:
        raise Muted("a few extreme values make the deviation of the inputs; ordinary ones are of unit size (DATA001)")
    absorbed = len(layers) > 1 and "Norm" in layers[1]
    before = facts.number(facts.table(run, "data.input_stats").get("std"))
    changed = bool(given) and not math.isclose(scale.std, before, rel_tol=0.5)  # and not only moved to another device
    for say, values, where in _faults(run, scale, least, most, off_centre, uneven):
        if changed and say == "uneven":
            continue  # the features were compared as the loader brought them
        harmless = absorbed and say != "uneven"
        yield Evidence(values, where, None, say, Severity.INFO if harmless else Severity.WARNING)


def _few_far(run: Run, least: int = 3, most: float = 0.1) -> bool:
    """Whether a few samples, not all of them, lie far outside the others."""
    far, size = run.series("batch/input_extreme").finite(), run.series("batch/size").finite()
    seen = max(2000.0, float(size.where(np.isin(size.steps, far.steps)).values.sum()))  # the first record is of 2,000 samples
    return least <= float(far.values.sum()) <= most * seen


def _faults(
    run: Run, s: _Scale, least: float, most: float, off_centre: float, uneven: float
) -> Iterator[tuple[str, dict[str, float], tuple[str, ...]]]:
    values = {"mean": s.mean, "std": s.std, "hi": s.hi, "least": least, "most": most}
    reach = max(abs(s.lo), abs(s.hi))
    integral = run.series("batch/input_integral").finite().values
    if len(integral) and np.all(integral == 1) and 128 <= s.hi <= 255 and s.std > most:  # 0…16 or small counts are no pixels
        yield "pixels", {**values, "mean_255": s.mean / 255, "std_255": s.std / 255}, ()
    elif 0 < reach < 0.005:
        yield "twice", values, ()
    elif s.std > most:
        yield "large", values, ()
    elif 0 < s.std < least and reach < 2 * least:  # sparse inputs have a small deviation and a large maximum
        yield "small", values, ()
    elif s.std > 0 and abs(s.mean) / s.std > off_centre:
        yield "offset", {**values, "offset": abs(s.mean) / s.std}, ()
    spreads = facts.numbers(facts.table(run, "data.channel_stats").get("std"))
    real = np.flatnonzero(np.isfinite(spreads) & (spreads > 1e-12))  # constant features carry nothing either way
    if len(real) >= 2:
        small, large = real[np.argmin(spreads[real])], real[np.argmax(spreads[real])]
        ratio = float(spreads[large] / spreads[small])
        # A small feature among unit-sized ones is merely weak; one far above unit size drowns the rest.
        if ratio > uneven and spreads[large] > 2.0:
            yield (
                "uneven",
                {**values, "ratio": ratio},
                (f"feature {small}: {spreads[small]:.2g}", f"feature {large}: {spreads[large]:.2g}"),
            )


def _more_steps(run: Run, have: float, need: int) -> int:
    size = run.series("batch/size").finite().values
    usual = float(np.median(size)) if len(size) else 32.0
    return max(1, math.ceil((need - max(have, 0.0)) / max(usual, 1.0))) if math.isfinite(have) else need
