"""Gradients became NaN or infinite: the loss is finite, its gradients are not.

## What it sees

The first thing of the run that was not finite is a gradient, at a step whose loss was a number. Where the step could
be replayed, the forward line whose backward broke is named. Gradients that a gradient scaler skips are not counted.

## Why it matters

The forward looks fine, so nothing that watches the loss sees it; the next update writes NaN into the weights.
`clip_grad_norm_` spreads one bad gradient over all of them.

## What else looks like this

- A scaler that calibrates its scale: lone infinite norms, weights untouched.
- Gradients that overflow only in half precision: `NUMR004`, `NUMR005`.
- A NaN in the forward: `NUMR001`.

## What to do

Square roots and norms at zero, `where` around a logarithm, `acos` at ±1 and `x / |x|` have infinite derivatives where
their values are fine. Write √(x² + ε), make the argument of `where` safe, clamp inside the domain. Until then, skip
updates whose gradients are not finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traindx import breakdown
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run


@rule(
    "NUMR002",
    needs={"event:nonfinite | grad_norm | grad_nonfinite/param": 1},
    says={
        "": "gradients became {value} at step {first} while the loss was finite",
        "named": "gradients became {value} at step {first} while the loss was finite, first in {where}",
        "origin": "gradients became {value} at step {first} while the loss was finite: the backward of {op} at {where} "
        "{doubt}broke",
        "moved": "gradients became {value} at step {first}, right after a step that moved {moved_layer} by {moved:.0%} of its "
        "size",
        "passing": "gradients were {value} at step {first}, the loss stayed finite",
    },
    fix={
        "": "Put ε inside roots and norms, and make both branches of torch.where finite. Skip updates with NaN or "
        "infinite gradients.",
        "moved": "Start again with a tenth of the learning rate and a warm-up: the step was too large.",
        "passing": "Find the operation that made them. Something already skips these updates (such as a gradient scaler), "
        "so the weights are still sound.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("NUMR003", "NUMR005", "LOSS001", "LOSS002", "LOSS006", "LOSS011", "EVAL001", "EVAL007", "ACTV005", "GRAD003"),
)
def nonfinite_backward(run: Run) -> Iterator[Evidence]:
    found = breakdown.breaks(run)
    first = breakdown.first_break(run)
    backward = breakdown.in_backward(run)
    grad = next((b for b in found if b.what == "grad"), first)
    if first is None or grad is None or (first.what != "grad" and not backward):
        return
    losses = run.series("loss/train")
    if len(losses) and losses.steps[-1] < grad.step and not backward and run.fact("ended") in (None, "running"):
        raise Unsure("the loss of that step is not recorded yet", needs_steps=1)
    moved, layer = params.thrown(run, grad.step)
    thrown = moved > params.THROWN  # whichever operation overflowed then, the update is to blame
    origin: Mapping[str, Any] = {} if thrown else backward or breakdown.origin(run, "forward")
    survived = breakdown.passed(run, grad.step) and not any(b.what in ("param", "state", "loss") for b in found)
    shown: dict[str, Any] = {"value": grad.spelled}
    if origin:
        shown |= {"op": str(origin["op"]), "doubt": "" if origin.get("proven") else "probably ", "module": origin.get("module")}
    where = breakdown.place(origin) or grad.names
    if thrown:
        shown |= {"moved": moved, "moved_layer": layer}
    advice = str(origin.get("advice") or "").replace("{", "{{").replace("}", "}}")
    yield Evidence(
        where=where,
        steps=(grad.step, run.steps[1] if run.steps else grad.step),
        say="passing" if survived else "moved" if thrown else "origin" if origin else "named" if where else "",
        severity=Severity.WARNING if survived else Severity.CRITICAL,
        confidence=Confidence.EXACT if grad.exact else Confidence.SUGGESTIVE if survived else Confidence.STRONG,
        facts=shown,
        fix=advice,
    )
