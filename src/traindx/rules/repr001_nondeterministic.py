"""The same run, started again, would give other numbers.

## What it sees

The trial `determinism` runs a few steps twice from one snapshot and names the first operation whose result differs: a fact.
Without it, what can be read off the run: sources of random numbers that were used and never seeded. Those are remarks.

## Why it matters

A change of .3 % means nothing if a second run of the old code differs by .5 %. A bug that appears once cannot be looked
for.

## What else looks like this

- Other hardware, other library versions, another number of threads: sums in another order differ in the last digit.
  Expected.
- REPR003: only the resumed run differs.

## What to do

`traindx.seed_everything(seed, deterministic=True)` seeds Python, NumPy, torch and the workers;
`torch.use_deterministic_algorithms(True)` and `CUBLAS_WORKSPACE_CONFIG=:4096:8` for the rest; iterate sorted lists, not
sets. It costs speed. `seeds = traindx.seed_everything(0)`, then `print(seeds.price(step))` measures the cost with a
function that makes one of your steps. `seeds.undo()` takes it back."""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "REPR001",
    needs={"fact:trial.determinism | fact:seeds": 1},
    says={
        "": "two runs from the same snapshot differ at step {step} in {where} ({kind})",
        "unseeded": "random numbers come from {where}, which was not seeded",
    },
    fix={
        "": "Seed everything and switch to deterministic algorithms: traindx.seed_everything(0, deterministic=True).",
        "unseeded": "Call traindx.seed_everything(seed) before data and model are made.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def nondeterministic(run: Run) -> Iterator[Evidence]:
    trial = facts.table(run, "trial.determinism")
    if trial.get("equal") is False:
        place = [str(trial[k]) for k in ("module", "op") if trial.get(k)]
        kind = str(trial.get("kind") or "value")
        step = facts.number(trial.get("step"), 0.0)
        yield Evidence({"step": f"{step:.0f}", "kind": kind}, tuple(place) or ("an unnamed operation",))
    seeds, used = facts.table(run, "seeds"), facts.table(run, "rng.used")
    loose = [name for name in ("python", "numpy", "torch", "worker") if used.get(name) is True and seeds.get(name) is False]
    if not used and seeds.get("torch") is False:  # initial weights come from torch's generator in every run
        loose = ["torch"]
    if loose:
        yield Evidence({}, tuple(loose), None, "unseeded", Severity.INFO)
