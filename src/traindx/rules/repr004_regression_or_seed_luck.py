"""The result differs from its reference: this run differs from its reference by more than another seed would explain.

## What it sees

Two runs compared step by step (`traindx compare`): the first window in which the difference leaves three deviations of the
spread between seeds, and stays outside for three windows. With fewer than three seeds the spread is estimated from the
runs' own noise, and the finding is a remark.

## Why it matters

"It used to be better" and "this change helps by .3 %" are the same question: is the difference larger than luck?

## What else looks like this

- Another seed, order of data or number of threads: inside the spread.
- REPR001: the same seed gives different runs; settle that first.

## What to do

Run at least three seeds of both and quote mean and deviation. To find the change that did it: `traindx bisect`.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "REPR004",
    needs={"fact:compare.separation": 1},
    says="from step {step} on {where} differs from {reference} by {sigma:.1f} standard deviations of {spread}",
    fix="Run three seeds of both before concluding; `traindx bisect` finds the change.",
    severity=Severity.WARNING,
)
def regression_or_seed_luck(
    run: Run,
    *,
    sigma: float = 3.0,  # CATALOGUE REPR004
    windows: int = 3,
    seeds: int = 3,
) -> Iterator[Evidence]:
    found = facts.table(run, "compare.separation")
    apart, held, repeats = (facts.number(found.get(k), 0.0) for k in ("sigma", "windows", "seeds"))
    if abs(apart) <= sigma or held < windows:
        return
    step = int(facts.number(found.get("step"), 0.0))
    spread = f"the spread between {repeats:.0f} seeds" if repeats >= seeds else "the runs' own noise"
    values = {"reference": str(found.get("reference") or "the reference"), "step": step, "sigma": abs(apart), "spread": spread}
    severity = Severity.WARNING if repeats >= seeds else Severity.INFO
    yield Evidence(values, (str(found.get("signal") or "loss/train"),), (step, step), "", severity)
