"""The first steps were large enough to destroy the network: the learning rate is too high.

## What it sees

The largest update ratio |Δw|/|w| of a weight matrix in the first ten steps (and the first ten after warm-up). It
fires above 0.3 with Adam, or above 0.1 with a loss that then diverged, never got below its start, or fell back to
chance. The first steps destroyed such a run, even if it looks calm now. So it is, as a warning, after a step of more
than the weights' own size when the loss has hardly fallen since. A large early update that the run survived well is a
remark. Without recorded updates it hints: the loss shot far above its start within the first tenth and then stayed at
or above it. Later in the run it looks at the rate only. The rate rose to at least twice its highest value so far, and
within 25 steps the loss blew up and never recovered.

## Why it matters

Too large a rate does not always end in NaN. As often it kills the units and leaves a run that is flat at ln C with tiny
updates, which looks exactly like a rate that is too *low*.

## What else looks like this

- OPTM001: tiny updates from the first step on.
- Fresh heads and zero-initialised tensors: their ratio is large because they are near zero; tensors below 1e-3 are not
  counted.
- A learning-rate finder, which does this on purpose.
- Reinforcement learning, whose loss is no measure of success: there only a loss that ends non-finite counts as harm.
- LOSS001 later in the run, at a rate that was fine before.

## What to do

A tenth of the learning rate, with warm-up. Restart: units that died do not come back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import course, regime
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.breaks import last_good

HELD = 200  # steps of falling loss after which the first ones are not to blame for what follows


@rule(
    "OPTM002",
    needs={"loss/train": 3},
    says={
        "": "a step moved {where} by {far} at step {at}; {harm}",
        "survived": "a step moved {where} by {far} at step {at}; the run recovered",
        "raised": "the learning rate rose from {before:.3g} to {after:.3g} at step {at}, and the loss blew up {soon}",
    },
    fix={
        "": "Restart with a tenth of the learning rate and a warm-up.",
        "survived": "No action needed; a warm-up over the first 1–5 % of the steps would avoid it.",
    },
    explains=(
        "OPTM009",  # decoupled decay grows with the rate
        "LOSS001",
        "LOSS002",
        "LOSS005",
        "LOSS006",
        "LOSS009",
        "LOSS011",
        "ACTV001",
        "ACTV005",
        "WGHT001",
        "OPTM001",
        "GRAD002",
        "GRAD003",
        "GRAD004",
        "NUMR001",
        "NUMR002",
        "NUMR003",
    ),
    unless=("adversarial",),
    at="optimizer rate",
)
def updates_too_large(
    run: Run,
    *,
    adam: float = 0.3,  # CATALOGUE OPTM002, measured: .14 best, .41 slightly worse, ≥ 1 dead
    harmful: float = 0.1,
    certain: float = 1.0,
) -> Iterator[Evidence]:
    if raised := _raised(run):
        yield raised
        return
    first = regime.phase_start(run) or (run.steps[0] if run.steps else 0)
    begins = {first, max(first, regime.start(run))}  # of what the loss is judged by: an earlier phase is another story
    early, where, at = max((params.early_update(run, s) for s in begins), key=_known)
    if _decays(run, where, at):
        return  # the weights shrink: OPTM009 and WGHT002 look at that
    if math.isnan(early):
        raise Blind("how far the first steps moved the weights was not recorded", "update_ratio/param")
    found = course.learned(run)
    harm = found.reasons[0] if found.no and _of_the_first_steps(run) else ""
    normalised = regime.adam_like(run) is not False
    far = f"{early:.0%} of its size" if early < 10 else f"{early:,.3g} times its size"
    numbers = {"early": early, "far": far, "at": at, "harm": harm or "the loss kept falling"}
    names = where or ("the weights",)
    if harm and early > (harmful if normalised else adam):
        yield Evidence(numbers, names, (at, at), severity=Severity.CRITICAL)
    elif harm and early > harmful:
        yield Evidence(numbers, names, (at, at))
    elif early > adam and normalised:
        yield Evidence(numbers, names, (at, at), "survived", Severity.WARNING if early >= certain else Severity.INFO)


def _of_the_first_steps(run: Run) -> bool:
    """It did not fall for long before it broke, and no single operation broke it out of the blue."""
    raw = run.series(regime.TRAIN)
    last = last_good(raw.values)
    if last is not None and last >= HELD:
        return False
    seen = raw.finite().values
    rose = len(seen) < 10 or float(np.max(seen[-5:])) > float(np.max(seen[:3]))
    return math.isfinite(raw.last) or rose


def _raised(run: Run, times: float = 2.0, within: int = 25, least: int = 50) -> Evidence | None:
    """The rate left the range in which the run had been fine, and the loss was lost right after."""
    loss, rate = run.series(regime.TRAIN), run.series("lr").finite()
    last = last_good(loss.values)
    if last is None or len(rate) < 2 or not rate.values.max() > 0:
        return None
    highest = np.maximum.accumulate(rate.values)[:-1]
    jumps = np.flatnonzero((highest > 0) & (rate.values[1:] >= times * highest)) + 1
    broke = int(loss.steps[last])
    for j in jumps[::-1]:
        at, before, after = int(rate.steps[j]), float(highest[j - 1]), float(rate.values[j])
        if broke - within <= at <= broke + 1 and at - rate.steps[0] >= least:
            late = broke + 1 - at
            soon = "at once" if late <= 1 else f"{late} steps later"
            lower = f"from {after:.3g} to {before:.3g}"
            numbers = {"before": before, "after": after, "at": at, "soon": soon, "lower": lower}
            advice = f"Stay at {before:.3g}, or raise the rate slowly."
            return Evidence(numbers, (), (at, broke + 1), "raised", Severity.CRITICAL, Confidence.STRONG, fix=advice)
    return None


def _decays(run: Run, where: tuple[str, ...], at: int) -> bool:
    """Whether weight decay moves these weights more than gradients do, in a step before momentum mixes the two."""
    table = run.matrix("decay_share/param").between(hi=at)
    rows = params.columns(table, [n for n in where if n in table.names]) if len(table) else np.empty((0, 0))
    return bool(rows.size) and float(np.max(np.where(np.isfinite(rows), rows, 0.0))) > 1


def _known(found: tuple[float, tuple[str, ...], int]) -> float:
    return -1.0 if math.isnan(found[0]) else found[0]
