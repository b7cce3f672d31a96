"""Updates and backward passes do not match: double steps, undivided accumulation, or gradients cleared too early.

## What it sees

Events of the loop. `optimizer.step` twice by the same optimizer with no backward between (`double_step`, at least
`least` times). Several backwards per update through the same loss call without dividing by their number
(`accumulation_undivided`). Where `zero_grad` was called before each of the k backwards, nothing was accumulated: k − 1
of k gradients were thrown away (at least `least_lost` backwards per update, in most updates).

## Why it matters

A repeated step doubles the learning rate and feeds the same gradient twice into momentum. An undivided accumulation
multiplies gradients by k: plain SGD then runs at k times the learning rate. Adam hardly notices, except through
clipping and ε. Gradients that are cleared unused cost time and teach nothing. The usual slip is an `optimizer.step()`
after the loop over batches instead of inside it: one update per epoch.

## What else looks like this

- A second backward by design: SAM, LBFGS, several losses with a backward each, real and fake halves of a
  discriminator's step.
- Gradients collected by hand (per sample, per task) and put back before the step: they are not lost, and are left alone.
- n critic steps per generator step: there is a backward before each.
- Sums over tokens that are divided by a count elsewhere: reported as info when the loss is summed.

## What to do

Step once per backward, inside the loop over batches. Divide each micro-batch loss by the number of micro-batches, or by
the total count of valid targets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run

TWICE_BY_DESIGN = ("lbfgs", "sam")


@rule(
    "WIRE011",
    needs={"event:double_step | event:accumulation_undivided | event:accumulation_discarded": 1},
    says={
        "double": "optimizer.step was called {often} without a backward since the last one",
        "undivided": "{k} micro-batches are accumulated per update and their losses are not divided by {k}: gradients are "
        "{k}× too large",
        "discarded": "zero_grad is called before each of the {k} backwards between two updates: {lost:.0%} of the gradients "
        "are thrown away, only the last batch counts",
    },
    fix={
        "double": "Call optimizer.step() once after each backward (or each accumulated group).",
        "undivided": "Divide each micro-batch loss by {k} before its backward.",
        "discarded": "Move optimizer.step() into the loop over batches, after each backward; to accumulate instead, call "
        "zero_grad only after a step.",
    },
    confidence=Confidence.EXACT,
    explains=("OPTM002", "ACTV005", "GRAD002", "LOSS005", "LOSS001", "OPTM011", "EVAL004"),
    at={"undivided": "backward", "double": "step", "discarded": "step"},
)
def accumulation_or_double_step(
    run: Run,
    *,
    least: int = 3,  # [def] a lone extra step (a warm-up call, a test of the loop) is no habit
    least_lost: int = 3,  # [def] backwards: two per update with a zero_grad each are also what sharpness-aware loops do
) -> Iterator[Evidence]:
    name = str(run.fact("optimizer.name") or "").lower()
    if any(word in name for word in TWICE_BY_DESIGN):
        raise Muted(f"{run.fact('optimizer.name')} evaluates more than once per update by design")
    end = run.steps[1] if run.steps else 0
    doubled = run.events_of("double_step")
    count = int(sum(facts.number(e.data.get("count"), 1) for e in doubled))
    if count >= least and _backwards(run) > 0.1:  # without any backward it is another fault, WIRE016
        yield Evidence(steps=(doubled[0].step, max(end, doubled[0].step)), say="double", facts={"count": count})
    thrown = run.events_of("accumulation_discarded")
    if thrown and max(facts.number(e.data.get("count"), 1) for e in thrown) >= least and not regime.adversarial(run):
        k, first = int(facts.number(thrown[0].data.get("k"), 0)), thrown[0].step
        if k >= least_lost:
            yield Evidence({"k": k, "lost": (k - 1) / k}, (), (first, max(end, first)), "discarded", Severity.CRITICAL)
    for event in run.events_of("accumulation_undivided")[:1]:
        k = int(facts.number(event.data.get("k"), 0)) or _micro_batches(run)
        if k < 2 or regime.adversarial(run):
            continue
        if _cleared_each_time(run, least_lost):
            lost = (event.step, max(end, event.step))
            yield Evidence({"k": k, "lost": (k - 1) / k}, (), lost, "discarded", Severity.CRITICAL)
            continue
        if event.data.get("anew"):
            continue  # gradients were cleared between these backwards: they do not add up (sharpness-aware minimisation)
        harmless = regime.adam_like(run) is not False or run.fact("loss.reduction") == "sum"
        steps = (event.step, max(end, event.step))
        yield Evidence(steps=steps, say="undivided", severity=Severity.INFO if harmless else None, facts={"k": k})


def _backwards(run: Run) -> float:
    """Share of updates with a backward before them; 1 when unknown."""
    backwards = run.series("loop/backwards").finite().values
    return float(np.mean(backwards > 0)) if len(backwards) else 1.0


def _cleared_each_time(run: Run, least: int) -> bool:
    """Whether, in most updates by the only optimizer, gradients are cleared as often as backwards bring them."""
    backwards, cleared = run.series("loop/backwards").finite(), run.series("loop/zero_grads").finite()
    at = np.intersect1d(backwards.steps, cleared.steps)
    if not len(at) or facts.number(run.fact("optimizer.count"), 1.0) > 1:
        return False
    brought = backwards.at(at)
    return bool(np.mean((brought >= least) & (cleared.at(at) >= brought)) > 0.5)


def _micro_batches(run: Run) -> int:
    backwards = run.series("loop/backwards").finite().values
    return int(np.median(backwards)) if len(backwards) else 0
