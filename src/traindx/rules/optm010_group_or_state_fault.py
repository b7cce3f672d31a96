"""The optimizer's groups or state are not what the run needs.

## What it sees

Facts:

- a parameter held twice, or an empty group;
- a group whose learning rate is zero, or never moves while the others follow the schedule;
- an optimizer without state at a step above zero (a resume that restored weights only), with the jump of the loss that
  followed;
- a new optimizer for the same parameters every few steps.

## Why it matters

Twice held is twice updated. A resume without moments starts Adam cold at full rate: a spike, sometimes a divergence.

## What else looks like this

- An optimizer that is reset on purpose, or created again for a new phase. Folds that each begin with fresh weights: the
  loss is back where it began.
- A group that is kept at a constant rate on purpose.

## What to do

Restore optimizer, scheduler, scaler, random state and sampler together; if moments are lost, warm up again over 200–1,000
steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.regime.curves import noise_of
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM010",
    needs={"fact:optimizer.name | fact:optimizer.groups | fact:optimizer.duplicates | lr/group": 10},
    says={
        "twice": "{where} is in two groups or optimizers and is updated twice",
        "empty": "parameter group {where} is empty",
        "stateless": "the optimizer had lost its state at step {first} (resumed without it); the loss went from {before:.4g} "
        "to {after:.4g}",
        "reset": "the optimizer had lost its state at step {first}; the loss did not rise",
        "anew": "a new optimizer is created for every update ({count} in all, for the same parameters), so its {state} "
        "cannot build up",
        "rebuilt": "a new optimizer is created every {every} steps ({count} in all, for the same parameters); each time its "
        "{state} is lost",
        "zero": "the learning rate of parameter group {where} is 0 throughout, so its parameters never learn",
        "idle": "the learning rate of group {where} stayed at {lr:.2e} while the others moved",
    },
    fix={
        "twice": "Give every parameter to one group of one optimizer.",
        "empty": "Remove the group, or give it its parameters: a filter may have matched nothing.",
        "stateless": "Load the optimizer's state with the weights, or warm up again over 200–1,000 steps.",
        "reset": "Load the optimizer's state with the weights.",
        "anew": "Create the optimizer once, before the loop.",
        "rebuilt": "Create the optimizer once, before the loop over epochs.",
        "zero": "Give the group a learning rate, or freeze its parameters with requires_grad_(False).",
        "idle": "Check that the scheduler's multipliers cover every group.",
    },
    confidence=Confidence.EXACT,
    explains=("LOSS006",),
    at="optimizer rate",
)
def group_or_state_fault(
    run: Run,
    *,
    moves: float = 0.2,  # of its peak: what the other groups must move before a constant one is odd
) -> Iterator[Evidence]:
    twice = facts.strings(run, "optimizer.duplicates")
    if twice:
        yield Evidence({}, twice, say="twice")
    empty = run.fact("optimizer.empty_groups")
    if isinstance(empty, list | tuple) and empty:
        yield Evidence({}, tuple(str(i) for i in empty), say="empty", severity=Severity.INFO)
    rebuilt = _rebuilt(run)
    if rebuilt is not None:
        yield rebuilt
    else:
        yield from _stateless(run)
    yield from _idle(run, moves)


def _rebuilt(run: Run, least: int = 4) -> Evidence | None:
    """One optimizer after the other for the same parameters, each for as many steps as the one before: built in the loop."""
    told, groups = run.fact("optimizer.steps"), run.fact("optimizer.groups")
    steps = [int(n) for n in told] if isinstance(told, list | tuple) else []
    if len(steps) <= least or regime.adversarial(run):
        return None
    again = [e for e in run.events_of("retrained") if e.data.get("same_parameters")]
    turns = max((int(facts.number(e.data.get("count"), 1)) for e in again), default=0)
    every = int(np.median(steps))
    if turns < least or np.mean(np.abs(np.array(steps[:-1]) - every) <= 1) < 0.9:
        return None
    first = groups[0] if isinstance(groups, list) and groups and isinstance(groups[0], dict) else {}
    state = "moments" if "betas" in first else "momentum" if first.get("momentum") else ""
    if not state or regime.thrown_back(run, np.cumsum(steps[:-1]).tolist()):
        return None  # folds and repetitions: with the optimizer the weights begin anew
    span = (every, run.steps[1] if run.steps else every)
    say = "rebuilt" if every > 1 else "anew"
    return Evidence({"every": every, "count": len(steps), "state": state}, (), span, say, Severity.WARNING)


def _stateless(run: Run) -> Iterator[Evidence]:
    step = run.fact("optimizer.fresh_at_step")
    if not isinstance(step, int) or step <= 0:
        return
    began = [e.data for e in run.events_of("retrained") if abs(e.step - step) <= 1]
    fresh = any(d.get("carried") == 0 and d.get("same_parameters") is False for d in began)
    if any(d.get("alike") is False for d in began) or (fresh and not regime.resumed_at(run, step)):
        return  # other parameters: another training (a fold, a seed), which begins without a state by right
    series = regime.curve(run, whole=True)
    before, after = series.between(hi=step - 1).values[-20:], series.between(lo=step).values[:20]
    if len(series) >= 10 and len(before) < 5:
        return  # there was no state to lose
    if len(before) < 5 or len(after) < 5:
        yield Evidence({"before": 0.0, "after": 0.0}, steps=(step, step), say="reset", severity=Severity.INFO)
        return
    low, high = float(np.median(before)), float(np.max(after))
    hurt = float(np.median(np.sort(after)[-5:])) > low + 4 * noise_of(before)
    again = regime.resumed_at(run, step)
    severity = None if hurt and again else Severity.INFO
    yield Evidence({"before": low, "after": high}, steps=(step, step), say="stateless" if hurt else "reset", severity=severity)


def _idle(run: Run, moves: float) -> Iterator[Evidence]:
    table = run.matrix("lr/group")
    table = table.where(np.asarray(np.isfinite(table.values).all(axis=1)))
    if len(table) < 10 or len(table.names) < 2:
        return
    low, high = table.values.min(axis=0), table.values.max(axis=0)
    moved = (high - low) / np.maximum(high, 1e-300)
    still = (moved < 1e-9) & (high > 0)
    off = np.flatnonzero(high == 0)
    if len(off) and len(off) < len(high):
        span = (int(table.steps[0]), int(table.steps[-1]))
        yield Evidence({"lr": 0.0}, tuple(table.names[i] for i in off), span, "zero", Severity.WARNING)
    if not still.any() or not np.any(moved > moves):
        return
    names = tuple(table.names[i] for i in np.flatnonzero(still))
    span = (int(table.steps[0]), int(table.steps[-1]))
    yield Evidence({"lr": float(high[np.flatnonzero(still)[0]])}, names, span, "idle", Severity.INFO)
