"""The loss jumped and took many steps to come back: the weights were thrown somewhere bad.

## What it sees

A record more than six robust deviations above the median of the 200 before it. Three of the next ten must still be
above two and a half, and at least a tenth of everything gained so far be lost. Coarse logs (fewer than 250 records, a
record per epoch, and validation losses) are judged afterwards, against the median of the neighbours on both sides.
One recovered event is a remark; three in 5,000 steps, or one that has not recovered after 500, is a warning (jumps
over within eight records cost nothing). Jumps that follow a raised learning rate, a resume or other data are expected
and not counted. A jump back to where training began that has not recovered has its own message: weights were lost or
created again.

## Why it matters

A spike costs the steps until it is over, sometimes leaves a lasting deficit, and often announces a divergence.

## What else looks like this

- LOSS007: one extreme batch; the next record is ordinary again.
- A learning-rate restart, a resume without optimizer state (OPTM010), a switch of the data source.
- Values bootstrapped from the model itself (Q-learning): the same inputs get new targets each time the target network
  is updated, and the loss jumps as it should. This is a remark, and not counted where that network was loaded just
  then.
- Tasks, folds or seeds one after the other in one log: each jump goes back to where the curve began. A remark.
- Evaluation values logged into the training column.
- Heavy-tailed batch losses: the threshold is in robust deviations, and needs several records to stay high.

## What to do

If it is rare and recovers within 200 steps, continue. Else go back 100–500 steps before it and skip those batches, β₂
.999 → .95, clip at the 95 % quantile of the norms, learning rate −20 … −50 %."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import begins_anew
from traindx.rule import rule
from traindx.run import Floats, Run, Series
from traindx.stats import Spike

ENOUGH = 250  # records from which the causal test is fair (CATALOGUE part 6)
SLOW = 8  # records until a jump is over: quicker ones cost nothing and correlated noise makes them


@dataclass(frozen=True)
class _Event:
    step: int
    spike: Spike


@rule(
    "LOSS006",
    needs={"loss/train | loss/val": 6},
    says={
        "": "the {what} jumped {often} and recovered slowly (first at step {first}); the worst jump was from "
        "{base:.4g} to {peak:.4g}",
        "coarse": "the {what} jumped {often} (first at step {first}); the worst jump was from {base:.4g} to {peak:.4g}",
        "lasting": "the {what} jumped from {base:.4g} to {peak:.4g} at step {first} and has not come back",
        "reset": "at step {first} the {what} jumped from {base:.4g} back to its starting level ({peak:.4g}; it began at "
        "{start:.4g}) and has not recovered",
    },
    fix={
        "": "Clip gradients at the 95 % quantile of their norms and lower β₂ to 0.95; if jumps repeat, lower the "
        "learning rate by a third.",
        "reset": "Was the run resumed there, or the model created again? Load the weights and the optimizer's state; "
        "otherwise "
        "clip gradients and lower the learning rate.",
    },
    severity=Severity.INFO,
    unless=("rl", "adversarial", "curriculum"),
)
def state_spike(
    run: Run,
    *,
    many: int = 3,  # CATALOGUE LOSS006: per 5,000 steps
    patience: int = 500,
    share: float = 0.1,  # of the gain so far: smaller jumps cost nothing
) -> Iterator[Evidence]:
    train = regime.curve(run)
    if len(train) >= ENOUGH and not regime.logged_by_epoch(run):
        yield from _steps(run, train, many, patience, share)
    elif len(train) >= 6:
        yield from _coarse(run, train, "training loss", many)
    val = regime.curve(run, regime.VAL)
    if len(val) >= 6:
        yield from _coarse(run, val, "validation loss", many)
    if len(train) < 6 and len(val) < 6:
        raise Unsure("too few finite records", needs_steps=6)


def _steps(run: Run, series: Series, many: int, patience: int, share: float) -> Iterator[Evidence]:
    y = series.values
    best = np.minimum.accumulate(stats.running_median(y, 25))
    start = float(np.median(y[:10]))
    found = []
    for spike in stats.spike_events(y, patience=patience).state:
        gained = start - float(best[spike.index])
        step = int(series.steps[spike.index])
        if spike.peak - spike.base > share * max(gained, 0.0) and not _expected(run, step):
            found.append(_Event(step, spike))
    if not found:
        return
    steps = (found[0].step, found[-1].step)
    lasting = [e for e in found if _lasts(e, series, patience)]
    worst = max(found, key=lambda e: e.spike.peak - e.spike.base)
    numbers = {
        "what": "training loss",
        "count": len(found),
        "base": worst.spike.base,
        "peak": worst.spike.peak,
        "z": worst.spike.z,
        "recovered_after": worst.spike.recovered_after,
        "events": [e.step for e in found[:20]],
    }
    if lasting:
        numbers = {**numbers, "base": lasting[0].spike.base, "peak": lasting[0].spike.peak}
        span = (lasting[0].step, int(series.steps[-1]))
        # A cyclic learning rate, where it is not logged, costs part of the gain; nearly all of it is lost by no schedule.
        ruined = any(e.spike.peak - e.spike.base > 0.8 * (start - e.spike.base) > 0 for e in lasting)
        severity = Severity.WARNING if ruined or len(regime.lr(run)) else None
        yield Evidence({**numbers, "start": start}, steps=span, say="reset" if ruined else "lasting", severity=severity)
        return
    slow = [e.step for e in found if e.spike.recovered_after is None or e.spike.recovered_after >= SLOW]
    alarming = _crowded(slow, many) and not regime.moving_targets(run) and not _several_trainings(run, y, found, start)
    yield Evidence(numbers, steps=steps, severity=Severity.WARNING if alarming else None)


def _several_trainings(run: Run, y: Floats, found: list[_Event], start: float) -> bool:
    """Whether a log, which tells no stages, goes back to where it began at each jump and falls from there like a training."""
    if regime.knows_stages(run):
        return False
    back = (e.spike.peak > start - 0.25 * (start - e.spike.base) for e in found)
    return all(back) and all(begins_anew(y, e.spike.index) for e in found)


def _lasts(event: _Event, series: Series, patience: int) -> bool:
    return event.spike.recovered_after is None and int(series.steps[-1]) - event.step >= patience


def _crowded(steps: list[int], many: int, within: int = 5000) -> bool:
    return any(steps[i + many - 1] - steps[i] <= within for i in range(len(steps) - many + 1))


def _expected(run: Run, step: int) -> bool:
    near = regime.is_muted(step, regime.muted_after_jumps(run, only_up=True))
    return near or regime.renewed_at(run, step) or regime.data_changed(run, step - 1, step)


def _coarse(run: Run, series: Series, what: str, many: int) -> Iterator[Evidence]:
    """Jumps of a coarse log: each record stands for many steps, so that even a lone one is a state of the weights."""
    found = [s for s in stats.peaks(series.values) if not _expected(run, int(series.steps[s.index]))]
    if not found:
        return
    worst = max(found, key=lambda s: s.peak - s.base)
    at = [int(series.steps[s.index]) for s in found]
    numbers = {"what": what, "count": len(found), "base": worst.base, "peak": worst.peak, "z": worst.z, "events": at[:20]}
    few = len(series) < 20
    yield Evidence(numbers, steps=(at[0], at[-1]), say="coarse", confidence=Confidence.SUGGESTIVE if few else None)
