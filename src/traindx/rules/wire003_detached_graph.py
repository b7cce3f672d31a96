"""The graph is cut, parameters get no gradient: a part of the model is used, but the loss has no path back to it.

## What it sees

A loss without a graph (`detached_loss`). Or trainable parameters that an optimizer holds, whose modules are called, and
that no walk from a loss through the autograd graph reached (`model.unreachable`). Parameters that had a gradient in any
recorded step are taken off the list. The boundary, the last module whose output still had a graph, is named where it
was seen. Critical from `critical_share` of the parameters on.

## Why it matters

Everything before a `.detach()`, `.item()`, `.data`, a round trip through NumPy, an `argmax` or a `no_grad` block
stays as it was initialised. The rest of the network learns to live with random features, so the loss still falls and
nothing looks broken.

## What else looks like this

- Stop-gradients by design: a target or teacher network has a counterpart of the same sizes that does learn; info
  only.
- A module that is never called: `WIRE014`. A zero gradient through a living graph: `GRAD004`, `ACTV001`.
- A branch that is used occasionally: one gradient in the record clears it.

## What to do

Keep tensors inside torch between model and loss. At the boundary, look for `.detach()`, `.item()`, `.data`,
`.numpy()`, `torch.tensor(...)`, `argmax` or `with torch.no_grad()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, outline
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE003",
    needs={"fact:model.unreachable | event:detached_loss": 1},
    says={
        "": "the loss has no path back to {count} trainable parameters ({share:.1%} of the model): {where}",
        "boundary": "the graph is cut after {boundary}: the loss has no path back to {count} trainable parameters "
        "({share:.1%} of the model): {where}",
        "loss": "the training loss has no graph: nothing can learn from it",
        "copy": "{count} parameters that copy others of the model get no gradient from the loss; they may be a target or "
        "teacher: {where}",
    },
    fix={
        "": "Look for .detach(), .item(), .data, NumPy, argmax or no_grad between {where} and the loss.",
        "boundary": "Look for .detach(), .item(), .data, NumPy, argmax or no_grad right after {boundary}.",
        "loss": "Compute the loss from the model's own output, outside no_grad, without .detach(), .item() or .data.",
        "copy": "If it is a target or teacher, set requires_grad_(False) on it and leave it out of the optimizer.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("GRAD004", "LOSS002", "LOSS003", "LOSS009", "ACTV002", "OPTM001", "WIRE016", "TUNE005", "EVAL009"),
    at="loss",
)
def detached_graph(run: Run, *, critical_share: float = 0.05) -> Iterator[Evidence]:
    # [def] as in WIRE001: from a twentieth of the model on the run is not what was meant.
    for event in run.events_of("detached_loss")[:1]:
        site = str(event.data.get("site") or "")
        yield Evidence(where=(site,) if site else (), steps=(event.step, event.step), say="loss")
    names = _cut_off(run)
    if not names:
        return
    share, boundary = outline.share(run, names), facts.strings(run, "model.boundary")
    say = "boundary" if boundary else ""
    severity = Severity.CRITICAL if share >= critical_share else Severity.WARNING
    if outline.is_copy(run, names) and not boundary:
        say, severity = "copy", Severity.INFO
    yield Evidence(
        where=names,
        steps=run.steps,
        say=say,
        severity=severity,
        facts={"count": len(names), "share": share, "boundary": boundary[0] if boundary else ""},
    )


def _cut_off(run: Run) -> tuple[str, ...]:
    """Unreached parameters of modules that are called, and that never had a gradient; the largest first."""
    idle, alive = facts.strings(run, "model.never_called"), outline.with_gradient(run)
    sizes = outline.elements(run)
    left = [n for n in facts.strings(run, "model.unreachable") if n not in alive and not outline.inside(n, idle)]
    return tuple(sorted(left, key=lambda n: -sizes.get(n, 0)))
