"""A compiled model is compiled again and again.

## What it sees

That the compiler gave up: after eight versions of the same code (torch's `recompile_limit`) it runs the code as it is. Or
the count of recompilations after step 50: more than five. Or, for a compiled model that was given many input shapes (as far
as sampled steps show), more than 2 % of the steps slower than three times the median.

## Why it matters

Each recompilation costs seconds. A model that gets a new shape every few steps spends more time compiling than
training.

## What else looks like this

- Evaluations and checkpoints between steps: they are not part of a step's time.
- PERF007: all steps get slower, not some.
- The first compilations: normal, before step 50.

## What to do

Pad or bucket the inputs to a few shapes, or use `torch.compile(dynamic=True)`. Turn off `cudnn.benchmark` if shapes
vary. Keep Python numbers that change every step out of the compiled part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "PERF006",
    needs={"recompiles | fact:perf.compiled": 2},
    says={
        "limit": "the compiler gave up at step {first}, after {count:.0f} versions: the code has been running uncompiled "
        "since then{reason}",
        "": "the model was recompiled {count:.0f} times after step {warm}",
        "slow": "{share:.1%} of the steps take more than three times the median, and the compiled model saw "
        "{shapes:.0f} input shapes",
    },
    fix="Pad or bucket inputs to a few shapes, or compile with dynamic=True; keep changing Python numbers out of the "
    "compiled part.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def recompilation(
    run: Run,
    *,
    most: int = 5,  # CATALOGUE PERF006
    warm: int = 50,
    slow: float = 0.02,
    shapes: int = 5,
) -> Iterator[Evidence]:
    gave_up = facts.table(run, "perf.uncompiled")
    if gave_up:
        step, reason = int(facts.number(gave_up.get("step"), 0.0)), str(gave_up.get("reason") or "")
        values = {"count": facts.number(gave_up.get("graphs"), 0.0), "reason": f" ({reason})" if reason else ""}
        yield Evidence(values, (), (step, (run.steps or (0, step))[1]), "limit")
        return
    counts = run.series("recompiles").finite()
    late = counts.between(warm)
    if len(late):
        more = late.last - float(late.values[0])
        if more > most:
            yield Evidence({"count": more, "warm": warm}, (), (warm, int(late.steps[-1])))
            return
    different = facts.number(run.fact("perf.shapes"), 0.0)
    times = run.series("time/step").finite().between(warm)
    if run.fact("perf.compiled") and different >= shapes and len(times) >= 200:
        share = float(np.mean(times.values > 3 * np.median(times.values)))
        if share > slow:
            values = {"share": share, "shapes": different}
            yield Evidence(values, ("time/step",), (warm, int(times.steps[-1])), "slow", Severity.INFO, Confidence.STRONG)
