"""Gradients are not cleared between updates: they are not cleared between updates.

## What it sees

At the first backward of a step the gradients of the previous update are still there (`loop/stale_grads`) and nobody
cleared them (`loop/zero_grads` is 0). Three such steps, making up at least `least_share` of the recorded ones, or
`in_a_row` of them at the end of the run are enough. Other optimizers of the same loop are looked at one by one: as many
of their own steps on gradients of the one before. Where the loop was not seen, it looks at successive gradients. If
they point the same way (median `grad_cosine` above `cosine`) while their norm grows to `growth` times its early level,
it says the same with less certainty.

## Why it matters

Every update applies the sum of all gradients so far: an undamped momentum that overshoots and swings. The damage sits
in the weights and in the optimizer's state.

## What else looks like this

- Gradient accumulation: gradients are kept between backwards, but not across an update.
- Full-batch training: successive gradients agree, but their norm does not grow.
- A generator's backward through the discriminator leaves gradients there; they are cleared before the discriminator's
  own.
- A learning rate that is too high: gradients of successive steps then disagree.

## What to do

Call `optimizer.zero_grad(set_to_none=True)` once per update, before the backward. Go back to weights from before the
fault, or start again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, last_stretch


@rule(
    "WIRE004",
    needs={"loop/stale_grads | grad_cosine": 3},
    says={
        "": "gradients of the previous update were not cleared in {share:.0%} of the steps from step {first} on: "
        "zero_grad is missing",
        "other": "the {nth} optimizer stepped on gradients of its previous update: its zero_grad is missing ({where})",
        "growth": "successive gradients point the same way (median cosine {cosine:.2f}) and their norm grew {growth:.1f}×: "
        "they add up",
    },
    fix={
        "": "Call optimizer.zero_grad() once per update, before the backward.",
        "other": "Call zero_grad() of every optimizer once per update, before the backward (or model.zero_grad() for all); "
        "restart from weights older than step {first}.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=(
        "GRAD002",
        "GRAD003",
        "GRAD007",
        "OPTM002",
        "OPTM006",
        "LOSS001",
        "LOSS005",
        "LOSS006",
        "NUMR001",
        "NUMR003",
        "ACTV005",
        "ACTV007",
        "WGHT001",
    ),
    at="backward",
)
def zero_grad_missing(
    run: Run,
    *,
    least_share: float = 0.2,  # [def] a zero_grad once per epoch leaves far more than this stale; a lone odd step less
    in_a_row: int = 5,  # [def] records: a zero_grad that went missing late shows so before it makes up a share
    cosine: float = 0.9,  # [x] .92-.99 with the fault, at most .45 healthy, .59 on sorted data
    growth: float = 3.0,  # [def] full-batch descent has cosine 1 and a falling norm
) -> Iterator[Evidence]:
    stale = run.series("loop/stale_grads").finite()
    if len(stale):
        cleared = run.series("loop/zero_grads")
        kept = stale.values > 0
        if len(cleared):
            kept &= ~(cleared.at(stale.steps) > 0)
        hits, share = stale.steps[kept], float(np.mean(kept))
        late = last_stretch(kept)
        if share < least_share and late >= in_a_row:
            hits, share = hits[-late:], 1.0
        if len(hits) >= 3 and share >= least_share:
            yield Evidence(steps=(int(hits[0]), int(hits[-1])), facts={"share": share, "count": len(hits)})
            return
    beside = [e for e in run.events_of("stale_grads") if facts.number(e.data.get("count"), 1) >= in_a_row]
    if beside:
        for event in beside:
            place = int(facts.number(event.data.get("optimizer"), 1))
            end = run.steps[1] if run.steps else event.step
            nth = ("first", "second", "third", "fourth")[place] if place < 4 else f"{place + 1}th"
            names = outline.named(event.data.get("names"))
            yield Evidence({"nth": nth}, names, (event.step, max(end, event.step)), "other")
        return
    yield from _piling_up(run, cosine, growth, bool(len(stale)) and not np.any(stale.values > 0))


def _piling_up(run: Run, cosine: float, growth: float, cleared: bool) -> Iterator[Evidence]:
    angle, norm = run.series("grad_cosine").finite(), run.series("grad_norm").finite()
    if cleared or len(angle) < 30 or len(norm) < 30:
        return
    agree = finite_median(angle.values)
    early = finite_median(norm.values[:10])
    third = max(len(norm) // 3, 10)
    late = max(finite_median(norm.values[i : i + third]) for i in range(0, len(norm) - third + 1, third))
    if agree > cosine and early > 0 and late > growth * early:
        steps = (int(angle.steps[0]), int(angle.steps[-1]))
        seen = {"cosine": agree, "growth": late / early}
        yield Evidence(steps=steps, say="growth", confidence=Confidence.STRONG, facts=seen)
