"""Layers are unused or not registered: modules that no optimizer can know, or that no forward calls.

## What it sees

Attributes that keep modules in a plain list or dict, so that `parameters()`, `.to()` and `state_dict()` do not find
them. Modules with parameters that no forward called in 20 steps and whose parameters got no gradient. As info: two
linear layers in a row with nothing non-linear between them.

## Why it matters

Unregistered layers are used but stay random, are not moved to the device and are missing from checkpoints. A layer
that is never called was probably meant to be.

## What else looks like this

- A teacher hidden in a one-element list to keep it out of the checkpoint: info.
- Unused heads of pretrained models, experts that were not chosen, layers whose weight is used without calling them:
  info or not reported.
- Low-rank factorisations and adapters are linear pairs by design.
- A module that is called but cut off from the loss: `WIRE003`.

## What to do

Use `nn.ModuleList`, `nn.ModuleDict` or `nn.ParameterList`. Call the layer, or delete it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE014",
    needs={"fact:model.unregistered | fact:model.never_called | fact:model.linear_pairs": 1},
    says={
        "unregistered": "modules in a plain list or dict are invisible to parameters(), .to() and state_dict(): {where}",
        "never-called": "modules with {share:.1%} of the parameters are never called: {where}",
        "experts": "some of several identical modules ({share:.1%} of the parameters) are never called: {where}",
        "linear": "linear layers follow each other with no non-linearity between them: {where}",
    },
    fix={
        "unregistered": "Use nn.ModuleList or nn.ModuleDict for {where}, before the optimizer is built.",
        "never-called": "Call {where} in forward, or delete it.",
        "experts": "If a router chooses among them, check its balance.",
        "linear": "Put an activation between them, unless you want a low-rank layer.",
    },
    confidence=Confidence.EXACT,
    explains=("WIRE001", "GRAD004", "LOSS002", "LOSS009"),
)
def unused_or_unregistered(run: Run, *, worth: float = 0.01) -> Iterator[Evidence]:
    # [def] an unused layer below 1 % of the parameters costs nothing; it is mentioned.
    yield from _unregistered(run)
    idle = _never_called(run)
    if idle:
        names = [p for p in outline.shapes(run) if outline.inside(p, idle)]
        share = outline.share(run, names)
        branches = _experts(run, idle)
        small = share < worth or regime.finetune(run) or branches
        yield Evidence(
            where=idle,
            steps=run.steps,
            say="experts" if branches else "never-called",
            severity=Severity.INFO if small else Severity.WARNING,
            facts={"share": share},
        )
    adapters = {outline.owner(n) for n in facts.strings(run, "model.adapters")}
    pairs = run.fact("model.linear_pairs")
    for pair in pairs if isinstance(pairs, list | tuple) else ():
        both = outline.named(pair)
        if both and not adapters & set(both):
            yield Evidence(where=both, say="linear", severity=Severity.INFO)


def _unregistered(run: Run) -> Iterator[Evidence]:
    hidden: list[str] = []
    meant: list[str] = []
    for attribute, what in facts.table(run, "model.unregistered").items():
        (meant if _meant(what) else hidden).append(str(attribute))
    if hidden:
        yield Evidence(where=tuple(hidden), steps=run.steps, say="unregistered", severity=Severity.CRITICAL)
    if meant:
        yield Evidence(where=tuple(meant), say="unregistered", severity=Severity.INFO)


def _meant(what: Any) -> bool:
    """Whether modules outside of parameters() look like a choice: an optimizer has them, or a lone module is tucked away."""
    if not isinstance(what, Mapping):
        return False
    return bool(what.get("in_optimizer")) or facts.number(what.get("count"), 2) <= 1 or facts.number(what.get("params"), 1) == 0


def _never_called(run: Run) -> tuple[str, ...]:
    alive = outline.with_gradient(run)
    return tuple(m for m in facts.strings(run, "model.never_called") if not any(outline.inside(p, [m]) for p in alive))


def _experts(run: Run, idle: tuple[str, ...]) -> bool:
    """Whether every idle module is, or lies in, one of several alike of which another was called: an expert, a branch."""
    kinds, called = outline.classes(run), outline.first_called(run)

    def has_sister(name: str) -> bool:
        home = outline.owner(name)
        alike = (o for o in called if o != name and outline.owner(o) == home and kinds.get(o) == kinds.get(name))
        return bool(home) and (next(alike, None) is not None or has_sister(home))

    return all(has_sister(name) for name in idle)
