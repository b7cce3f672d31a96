"""The scheduler is stepped in the wrong unit or order.

## What it sees

Calls of `scheduler.step` counted against updates and epochs. It looks for:

- steps before the optimizer's first step, or twice per update;
- a schedule planned in epochs but stepped per batch, so that it is over within an epoch;
- a one-cycle schedule stepped per epoch;
- a schedule that was built and never stepped, or built again and again. The ratio of scheduler steps to updates must be
  1 or one per epoch. And a run that is over while its learning rate still rises in a straight line, with a loss that
  has hardly fallen: the warm-up of a longer recipe.

## Why it matters

The run follows a learning rate that you did not choose: decayed to nothing within minutes, or never moved. It looks
like a plateau or like slow learning.

## What else looks like this

- Warm restarts and cyclic schedules run through many times by design; they are not judged by their length.
- Two optimizers with a scheduler each: every scheduler counts for itself.
- A first update skipped by the gradient scaler makes torch warn about the order; nothing is wrong then.
- A range test raises the rate to the end too, but by factors, and ends with a loss that moves.
- A plan that is simply too short or too long: `OPTM003`.

## What to do

Step after `optimizer.step()`, once per unit the schedule is written in: per batch for one-cycle and warm-up
schedules, per epoch for `StepLR`, `MultiStepLR`, `CosineAnnealingLR(T_max=epochs)` and `ReduceLROnPlateau`. Build it
once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence
from traindx.regime.curves import progress
from traindx.rule import rule
from traindx.run import Run, Series

PER_BATCH = ("OneCycleLR", "CyclicLR")
ENDLESS = ("CosineAnnealingWarmRestarts", "CyclicLR", "LambdaLR", "LinearLR", "ConstantLR", "SequentialLR", "ChainedScheduler")


@rule(
    "WIRE010",
    subject="schedule",
    needs={"loop/scheduler_steps | fact:schedule.name | event:scheduler_order": 1},
    says={
        "order": "scheduler.step was called before optimizer.step ({often}): the first learning rates are skipped",
        "twice": "the scheduler takes {ratio:.1f} steps per update: the schedule runs too fast",
        "unit": "{schedule} is planned for {length:g} steps but is stepped on every batch ({per_epoch} per epoch): it "
        "ends after {epochs:.1f} epochs",
        "slow": "{schedule} is planned for {length:g} batches but stepped once in {every:.0f} updates: it hardly moves",
        "never": "{schedule} was built but never stepped in {updates} updates",
        "warmup": "the learning rate was still rising when the run ended, at {rate:.3g}, and the loss has hardly fallen: the "
        "warm-up is longer than the run",
        "rebuilt": "a new scheduler was built {count} times while training: each starts from the beginning",
    },
    fix={
        "order": "Call scheduler.step() after optimizer.step().",
        "twice": "Call scheduler.step() once per update (or once per epoch), not in both places.",
        "unit": "Call scheduler.step() once per epoch, or give the schedule its length in batches.",
        "slow": "Call scheduler.step() after every optimizer.step().",
        "never": "Call scheduler.step() in the loop.",
        "warmup": "Let the warm-up end after 1 to 10 % of the {updates} updates that this run has.",
        "rebuilt": "Build the scheduler once, before the loop.",
    },
    confidence=Confidence.EXACT,
    explains=("OPTM001", "OPTM003", "LOSS003", "LOSS002", "EVAL004"),
    at="schedule",
)
def scheduler_misuse(
    run: Run,
    *,
    rebuilt: int = 3,  # [def] a second schedule for a second phase is common, a third is a loop
    idle_epochs: float = 2.0,  # [def] a per-epoch schedule must have moved after two epochs
) -> Iterator[Evidence]:
    yield from _order(run)
    again = int(facts.number(run.fact("schedule.count"), 0))
    if again >= rebuilt:
        yield Evidence(steps=run.steps, say="rebuilt", facts={"count": again})
        return
    steps = run.series("loop/scheduler_steps").finite()
    if len(steps) >= 20:  # [def] fewer updates say nothing about a rhythm
        yield from _rhythm(run, steps, idle_epochs)
    yield from _warming(run)


def _order(run: Run) -> Iterator[Evidence]:
    events = run.events_of("scheduler_order")
    skipped = run.series("amp/skipped")
    if len(skipped) and skipped.values[0] > 0:
        return
    if events or run.fact("schedule.before_optimizer"):
        count = int(facts.number(events[0].data.get("count"), 1)) if events else 1
        at = (events[0].step, events[-1].step) if events else run.steps
        yield Evidence(steps=at, say="order", facts={"count": count})


def _warming(run: Run, little: float = 0.2, least: int = 50) -> Iterator[Evidence]:
    rate, done = regime.lr(run).finite(), progress(regime.curve(run).finite())
    if run.fact("ended") in (None, "detached") or len(rate) < least or done is None or abs(done.relative) > little:
        return
    half, last = float(rate.values[len(rate) // 2]), float(rate.values[-1])
    if (np.diff(rate.values) > 0).all() and 0.3 * last < half < 0.7 * last and rate.values[0] < 0.1 * last:
        at = (int(rate.steps[0]), int(rate.steps[-1]))
        told = {"rate": last, "updates": at[1] - at[0] + 1}
        yield Evidence(told, (), at, "warmup", confidence=Confidence.STRONG)


def _rhythm(run: Run, steps: Series, idle_epochs: float) -> Iterator[Evidence]:
    each = max(1.0, facts.number(run.fact("schedule.objects"), facts.number(run.fact("optimizer.count"), 1)))
    last = max(int(steps.steps[-1]), run.steps[1] if run.steps else 0)  # rhythms are sampled; the run may have continued
    updates = last - int(steps.steps[0]) + 1
    ratio = float(steps.values.mean()) / each
    name = str(run.fact("schedule.name") or "")
    shown = {"schedule": name or "the scheduler", "ratio": ratio, "updates": updates}
    at = (int(steps.steps[0]), int(steps.steps[-1]))
    known, rounds = regime.steps_per_epoch(run), _between_evaluations(run)
    per_epoch = known or rounds
    if ratio >= 1.5:
        yield Evidence(steps=at, say="twice", facts=shown)
    elif ratio == 0 and name:
        done = known is not None and updates >= idle_epochs * known
        if done or name in PER_BATCH:
            yield Evidence(steps=at, say="never", facts=shown)
    elif per_epoch is not None and per_epoch >= 4:
        length = _length(run, name)
        shown |= {"per_epoch": per_epoch, "length": length, "epochs": length / per_epoch}
        in_epochs = (known is not None and length < known) or _as_long_as_the_run(length, updates / per_epoch)
        if ratio >= 0.9 and name not in (*ENDLESS, *PER_BATCH) and in_epochs and _over(run, updates, length):
            yield Evidence(steps=at, say="unit", facts=shown)
        elif known is not None and ratio < 0.5 and ratio * updates < 0.5 * length and _meant_per_batch(name, length, known):
            yield Evidence(steps=at, say="slow", facts={**shown, "every": 1 / ratio})


def _between_evaluations(run: Run) -> int | None:
    """Updates from one evaluation to the next where it is always the same number: what goes for an epoch without a loader."""
    at = run.series("loss/val").steps
    if not len(at):  # an evaluation may have an accuracy only
        at = np.array([e.step for e in run.events_of("evaluation")], dtype=np.int64)
    gaps = np.diff(at)
    return int(gaps[0]) if len(gaps) >= 4 and gaps[0] > 0 and np.all(gaps == gaps[0]) else None


def _as_long_as_the_run(length: float, epochs: float) -> bool:
    """Whether the schedule has as many steps as the run has epochs: then it was laid out in epochs."""
    return epochs >= 5 and abs(length / epochs - 1) < 0.1


def _length(run: Run, name: str) -> float:
    """Scheduler steps until the schedule has run through, as it was laid out; infinite when it has no length."""
    params = facts.table(run, "schedule.params")
    if name == "StepLR":
        return 3 * facts.number(params.get("step_size"), math.inf)  # three decays are a thousandth at the usual factor
    if name == "MultiStepLR":
        return max((facts.number(m, 0.0) for m in params.get("milestones") or ()), default=math.inf)
    if name == "ExponentialLR":
        gamma = facts.number(params.get("gamma"), 1.0)
        return math.log(1e-3) / math.log(gamma) if 0 < gamma < 1 else math.inf
    if name == "ReduceLROnPlateau":
        return 3 * (facts.number(params.get("patience"), math.inf) + 1)
    return facts.number(run.fact("schedule.planned_steps"), facts.number(params.get("T_max"), math.inf))


def _over(run: Run, updates: int, length: float) -> bool:
    """Whether the schedule has run through already, and the learning rate shows it."""
    rate = regime.lr(run)
    fallen = len(rate) > 0 and float(rate.values.min()) <= 0.1 * float(rate.values.max())
    return updates >= length and (fallen or not len(rate))


def _meant_per_batch(name: str, length: float, per_epoch: int) -> bool:
    epochs = length / per_epoch
    whole = math.isfinite(epochs) and epochs >= 2 and abs(epochs - round(epochs)) < 0.01 * epochs
    return name == "OneCycleLR" or (whole and length >= 200)  # a length that is a multiple of the epoch counts batches
