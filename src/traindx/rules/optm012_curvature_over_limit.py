"""The loss is too sharply curved for this learning rate.

## What it sees

After `traindx trial sharpness train.py` at three checkpoints at least 50 steps apart: λ_max is above 1.2 times the stability
limit of the optimizer. The limit is 2/η for SGD, (2+2β)/η with momentum, and 38/η on the preconditioned Hessian for
Adam. It is a warning when the loss oscillates or spikes too.

## Why it matters

Along that direction every step overshoots: the loss shakes, and sooner or later jumps.

## What else looks like this

- Hovering *at* the limit is normal (edge of stability).
- Adam exceeds its limit at step 0 in healthy runs; only a sustained excess counts.

## What to do

Learning rate to half of limit/λ; warm-up, which lowers λ; sharpness-aware minimisation if generalisation is the aim.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM012",
    needs={"fact:trial.sharpness": 1},
    says="the curvature is {ratio:.1f} times the stability limit of this learning rate at {checkpoints} checkpoints",
    fix="Lower the learning rate to {lr:.2g}.",
    severity=Severity.INFO,
    explains=("LOSS005", "LOSS006", "GRAD007"),
    at="optimizer rate",
)
def curvature_over_limit(
    run: Run,
    *,
    excess: float = 1.2,  # CATALOGUE OPTM012
    checkpoints: int = 3,
    apart: int = 50,
) -> Iterator[Evidence]:
    told = [
        (
            int(facts.number(r.get("step"), 0)),
            facts.number(r.get("lambda_max")),
            facts.number(r.get("limit")),
            facts.number(r.get("lr")),
        )
        for r in facts.rows(run, "trial.sharpness")
    ]
    told = sorted(t for t in told if t[1] > 0 and t[2] > 0 and t[0] > 0)
    kept: list[tuple[int, float, float, float]] = []
    for row in told:
        if not kept or row[0] - kept[-1][0] >= apart:
            kept.append(row)
    if len(kept) < checkpoints:
        raise Unsure(
            f"{len(kept)} checkpoints apart enough, needs {checkpoints}", needs_steps=apart * (checkpoints - len(kept))
        )
    over = [row for row in kept if row[1] > excess * row[2]]
    if len(over) < checkpoints or over[-1] != kept[-1]:
        return
    ratio = over[-1][1] / over[-1][2]
    numbers = {"ratio": ratio, "checkpoints": len(over), "lr": 0.5 * over[-1][3] / ratio}
    shaken = len(regime.curve(run)) >= 250 and bool(stats.spike_events(regime.curve(run).values).state)
    yield Evidence(numbers, steps=(over[0][0], over[-1][0]), severity=Severity.WARNING if shaken else None)
