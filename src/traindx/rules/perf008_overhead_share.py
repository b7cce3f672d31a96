"""Overhead takes much of the time: much of the time goes into evaluation, checkpoints, logging or observing.

## What it sees

The shares of wall time by phase: evaluation above 20 %, checkpoints or logging above 5 %, our own observation above 1
%. A warning needs evaluation above 50 % or the others above 20 %. It reports on runs of at least a minute, and on
shorter ones only if they evaluate or save every few steps. In a short run one evaluation, or starting the observer,
always takes a large share.

## Why it matters

The hours you pay for are not spent on learning.

## What else looks like this

- PERF001: the loader's time is its own share.
- Evaluation of a small experiment after every epoch: right as it is.
- Passes without gradients that nobody measures are no evaluation: an agent acts, negatives are mined, labels are
  guessed, samples are drawn. They are a remark, and are not reported where the data come from the model.

## What to do

Evaluate less often or on a fixed part, save the last and the best only, in a thread; log every 50 steps. If observing costs
more than its budget, lower the budget (`budget=0.005`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from traindx import facts, regime
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

LIMITS = {"eval": (0.2, 0.5), "checkpoint": (0.05, 0.2), "logging": (0.05, 0.2), "traindx": (0.01, 1.1)}  # CATALOGUE PERF008
WORDS = {"eval": "evaluation", "checkpoint": "checkpoints", "logging": "logging", "traindx": "observing by traindx"}
FIXES = {
    "eval": "Evaluate less often, or on a fixed part of the validation set.",
    "checkpoint": "Save the last and the best checkpoint only, or save in a thread.",
    "logging": "Log every 50 steps.",
    "traindx": "Lower the budget of traindx (budget=0.005).",
}
UNMEASURED = "passes without gradients of which no loss was taken"
PASSES = "If these passes are an evaluation, make it less often; if they make the data (sampling, mining), nothing."


@rule(
    "PERF008",
    needs={"fact:perf.shares | time/step": 20},
    says=dict.fromkeys(LIMITS, "{share:.0%} of the time is spent on {what} (limit: {limit:.0%})"),
    severity=Severity.WARNING,
    at={"eval": "evaluate guard", "checkpoint": "save"},
)
def overhead_share(
    run: Run,
    *,
    least_s: float = 60.0,  # of a shorter run one evaluation is a large part by nature
    often: float = 5.0,  # steps between two evaluations, or two checkpoints, below which it is too often in a short run, too
) -> Iterator[Evidence]:
    shares, seconds = _shares(run)
    span = run.steps or (0, 0)
    epoch = regime.steps_per_epoch(run) or math.inf
    times = {
        "eval": max(len(run.series("loss/val")), len(run.events_of("evaluation"))),
        "checkpoint": max(facts.number(run.fact("checkpoint.saves"), 0.0), len(run.events_of("checkpoint"))),
    }
    ours = min(facts.number(shares.get("traindx"), 0.0), 0.9)
    unmeasured = bool(run.events_of("evaluation")) and not any(len(run.series(n)) for n in ("loss/val", "accuracy/val"))
    for phase, (limit, grave) in LIMITS.items():
        if phase == "eval" and unmeasured and regime.reinforcement(run):
            continue  # the agent acts: that is how its data are made
        part = facts.number(shares.get(phase), 0.0)
        if phase != "traindx":
            # Of the user's own time, which is less than all of it; what we did meanwhile may be counted in a phase as well.
            part = part / (1 - ours) if part + ours <= 1 else (part - ours) / (1 - ours)
        too_often = times.get(phase, 0) >= 20 and span[1] - span[0] < often * times[phase]
        if too_often and span[1] - span[0] > 0.9 * epoch * times[phase]:
            too_often = False  # after every pass over a data set of a few batches
        if (seconds >= least_s or too_often) and limit < part <= 1:
            idle = phase == "eval" and unmeasured
            severity = Severity.WARNING if part > grave and not idle else Severity.INFO
            what, fix = (UNMEASURED, PASSES) if idle else (WORDS[phase], FIXES[phase])
            yield Evidence({"share": part, "what": what, "limit": limit}, (phase,), None, phase, severity, None, None, fix)


def _shares(run: Run) -> tuple[Mapping[str, float], float]:
    names = {"train": "time/step", "eval": "time/eval", "checkpoint": "time/checkpoint", "traindx": "time/traindx"}
    spent = {phase: float(np.sum(np.maximum(run.series(name).finite().values, 0.0))) for phase, name in names.items()}
    total = spent["train"] + spent["eval"] + spent["checkpoint"]
    fact = facts.table(run, "perf.shares")
    if fact:
        return fact, total
    return ({phase: s / total for phase, s in spent.items()} if total > 0 else {}), total
