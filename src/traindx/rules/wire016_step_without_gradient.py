"""Updates are made without a gradient: the optimizer is called when there is nothing to apply, or is not called any more.

## What it sees

Updates at which every gradient was None or zero (`loop/empty_step`), in at least `least` recorded steps. Gradients
that are None, or no backward since the last update, are facts about the order of calls. Whether the backward brought
the optimizer's parameters gradients that were cleared before the update, or never reached one of them, is seen as
well. When all gradients are zero because the loss is exactly zero, or because no target was valid, other rules report
it and this one does not. It also counts how often the line that trains went backward after the last step of any
optimizer. It is reported from twenty times on, and from four times as many as one update ever had.

## Why it matters

`zero_grad` between `backward` and `step` erases what was just computed; a forgotten `backward` computes nothing. An
optimizer created before its layers were replaced or frozen, or whose layers are cut off from the loss, has nothing to
do. The loop runs, but the weights do not move, or only drift by weight decay and old momentum. A condition around the
step that is never true again has the same effect.

## What else looks like this

- Updates skipped by the gradient scaler: they are not made at all (`NUMR005`).
- A loss of exactly zero (hinge or triplet loss satisfied): nothing to learn, not a fault of the loop.
- Gradients for something else after training (adversarial examples, influence): another line goes backward for them.
- Batches without valid targets: `TUNE002`. A dead network: `ACTV001`, `GRAD004`.

## What to do

Order: `zero_grad`, forward, `backward`, `step`. An optimizer that is never reached is to be given the parameters the loss
depends on, after the last layer was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE016",
    needs={"loop/empty_step": 3},
    says={
        "": "{share:.0%} of the updates were made with every gradient zero",
        "none": "{share:.0%} of the updates were made without any gradient",
        "cleared": "{share:.0%} of the updates were made without any gradient: zero_grad came between backward and step",
        "unreached": "{share:.0%} of the updates were made without any gradient: no backward reaches a parameter that this "
        "optimizer holds",
        "no-backward": "{share:.0%} of the updates were made without a backward before them",
        "stopped": "after {updates} updates no optimizer stepped any more, though gradients were computed {left} times",
    },
    fix={
        "": "Call zero_grad, forward, backward, step, in this order.",
        "unreached": "Give the optimizer the parameters that the loss depends on. Look for a detach between them and "
        "the loss, and for layers replaced or frozen after the optimizer was created.",
        "stopped": "Look at the condition around optimizer.step(), and at what may have skipped or left it.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("WIRE011", "EVAL009", "LOSS002", "GRAD004", "OPTM001", "LOSS009", "EVAL007", "EVAL001"),
    at={"": "step", "cleared": "late_zero_grad|zero_grad", "unreached": "optimizer loss"},
)
def step_without_gradient(
    run: Run,
    *,
    least: int = 3,  # CATALOGUE part 10
    most_share: float = 0.5,  # [def] when half of the updates are empty, going on is a waste
    unused: int = 20,  # [def] gradients without a step: more than anybody accumulates by chance at the end
) -> Iterator[Evidence]:
    left, usual = facts.number(run.fact("loop.unused_backwards"), 0.0), run.series("loop/backwards").finite().values
    if len(usual) and left >= max(unused, 4 * usual.max()):
        updates = int(sum(run.fact("optimizer.steps") or ()))
        severity = Severity.CRITICAL if left > updates else Severity.WARNING
        steps = (run.steps[1], run.steps[1]) if run.steps else None
        yield Evidence({"updates": updates, "left": int(left)}, (), steps, "stopped", severity)
    empty = run.series("loop/empty_step").finite()
    hits = empty.where(empty.values > 0)
    hits = hits.where(~(run.series("loss/train").at(hits.steps) == 0))  # a satisfied loss has no gradient, and needs none
    masked = {e.step for e in run.events_of("empty_targets")}
    hits = hits.where(~np.isin(hits.steps, list(masked)))
    if len(hits) < least:
        return
    share = len(hits) / len(empty)
    backwards = run.series("loop/backwards")
    none = run.events_of("grad_all_none")
    hows = {str(e.data.get("how") or "") for e in none}
    say = next((how for how in ("unreached", "cleared") if how in hows), "none") if none else ""
    if len(backwards) and not np.any(backwards.at(hits.steps) > 0):
        say = "no-backward"
    severity = Severity.CRITICAL if share >= most_share else Severity.WARNING if say else Severity.INFO
    yield Evidence(steps=(int(hits.steps[0]), int(hits.steps[-1])), say=say, severity=severity, facts={"share": share})
