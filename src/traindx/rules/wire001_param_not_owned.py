"""Some parameters belong to no optimizer: a trainable parameter receives gradients, but no optimizer holds it.

## What it sees

Parameters with `requires_grad` and a gradient whose identity is in no parameter group of any optimizer
(`model.unowned`). It is a fact, so it is reported after the first update. It is critical when the parameters make up
at least `critical_share` of the trainable ones. It is also critical when the optimizer holds as many tensors that the
model no longer has: then it was built for another model.

## Why it matters

Such parameters keep their first values for the whole run. If it is the new head of a fine-tuned network, everything
behind it trains against random projections.

## What else looks like this

- A frozen backbone by omission: trained weights were loaded and the optimizer was given the later layers only. That
  is reported as info; `requires_grad_(False)` would say it and save the backward.
- A parameter without any gradient (`GRAD004`): there the graph is the problem, not the optimizer.
- Several optimizers: all of them are looked at.

## What to do

Build the optimizer last: after the head was replaced, after `.to()`, after adapters were added, after the model was
rebuilt. Or `optimizer.add_param_group({"params": new.parameters()})`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "WIRE001",
    needs={"fact:model.unowned": 1},
    says={
        "": "{count} trainable parameters ({share}) get gradients but belong to no optimizer: {where}",
        "stale": "the optimizer holds {foreign} that the model no longer has, while {count} of the model's own "
        "({share}) belong to no optimizer: {where}",
        "intent": "the optimizer was given the later layers only; {count} earlier parameters ({share}) get gradients "
        "that are never used: {where}",
    },
    fix={
        "": "Create the optimizer after the model is complete, or add {where} with add_param_group.",
        "stale": "Create the optimizer after the model (or its head) was replaced: optimizer = Optim(model.parameters(), …).",
        "intent": "If this is intended, call requires_grad_(False) on them: backward gets cheaper.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("GRAD004", "LOSS002", "LOSS003", "LOSS009", "ACTV002", "OPTM001", "OPTM010"),
    at="optimizer",
)
def param_not_owned(run: Run, *, critical_share: float = 0.05) -> Iterator[Evidence]:
    # [def] a twentieth of the model left untrained is no detail; below it the run still mostly does what was meant.
    if run.fact("optimizer.count") == 0 and not run.fact("optimizer.name"):
        raise Muted("there is no optimizer: the script updates its weights by hand")
    names = facts.strings(run, "model.unowned")
    if not names:
        return
    sizes = outline.elements(run)
    share = facts.number(run.fact("model.unowned_share"), outline.share(run, names))
    foreign = int(facts.number(run.fact("model.foreign_params"), 0))
    say, severity = "", Severity.CRITICAL if share >= critical_share else Severity.WARNING
    if foreign >= max(1, len(names) // 2):
        say, severity = "stale", Severity.CRITICAL
    elif regime.finetune(run) and _are_the_first(run, set(names)):
        say, severity = "intent", Severity.INFO
    yield Evidence(
        where=tuple(sorted(names, key=lambda n: -sizes.get(n, 0))),
        steps=run.steps,
        say=say,
        severity=severity,
        facts={
            "count": len(names),
            "share": f"{share:.1%} of them" if math.isfinite(share) else "share unknown",
            "unowned_share": share,
            "foreign": "1 tensor" if foreign == 1 else f"{foreign} tensors",
        },
    )


def _are_the_first(run: Run, unowned: set[str]) -> bool:
    """Whether the parameters are the model's first ones, in order, without a hole: a backbone left out on purpose."""
    frozen = set(facts.strings(run, "model.frozen"))
    order = [n for n in outline.shapes(run) if n not in frozen]
    return 0 < len(unowned) < len(order) and set(order[: len(unowned)]) == unowned
