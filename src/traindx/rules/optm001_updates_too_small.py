"""Steps are too small to matter: the learning rate is too low.

## What it sees

The median update ratio |Δw|/|w| of the weight matrices after warm-up, where the learning rate is at least half of its
peak. Below 1e-5 in nearly all layers (1e-6 when fine-tuning) it is a warning until the loss comes down. Below 1e-4 it
is a warning only if less than a tenth of the first loss was gained in at least 200 steps; otherwise a remark. Healthy
runs lie between 1e-4 and 1e-2. Imported logs without updates only get a hint: a flat loss at a learning rate of 1e-6 or
less.

## Why it matters

The run costs what a good run costs and learns almost nothing.

## What else looks like this

- OPTM002: the first steps were far too *large*, killed the network, and left it calm: the largest early update is looked at
  first.
- OPTM003: the schedule took the rate away later.
- NUMR005, NUMR007, OPTM008: steps skipped, swallowed by half precision, or damped by ε.
- Warm-up, the end of a schedule, a loss that is already near zero.
- Scale-invariant networks with huge weights; zero-initialised layers.

## What to do

Ten times the learning rate, or what `traindx trial lr-range train.py` finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import course, regime
from traindx.finding import Confidence, Evidence, Muted, Severity, Unsure
from traindx.regime import params
from traindx.regime.curves import Progress, progress
from traindx.rule import rule
from traindx.run import Matrix, Run
from traindx.stats import Direction


@rule(
    "OPTM001",
    needs={"update_ratio/param | update_ratio | lr": 10},
    says={
        "": "steps move the weights by {ratio:.1e} of their size (healthy: 1e-4 to 1e-2); the loss went from {start:.4g} to "
        "{now:.4g}",
        "rate": "the learning rate is {lr:.1e} and the loss stays at {now:.4g}: steps may be too small to matter",
    },
    fix="Try ten times the learning rate, or `traindx trial lr-range train.py`.",
    explains=("LOSS002", "LOSS009"),
    at="optimizer rate",
)
def updates_too_small(
    run: Run,
    *,
    tiny: float = 1e-5,  # CATALOGUE OPTM001, measured: Adam 1e-5 crawls at 9e-5
    small: float = 1e-4,
    finetune_factor: float = 0.1,
    hot: float = 0.1,  # an early update above this is another story
    steps: int = 50,
) -> Iterator[Evidence]:
    if regime.in_warmup(run):
        raise Muted("the learning rate is still rising")
    series = regime.curve(run)
    done = progress(series.between(lo=regime.start(run)))
    table = params.update_ratios(run)
    if not len(table) and not len(run.series("update_ratio")):
        yield from _from_rate(run, done)
        return
    early, _, _ = params.early_update(run, run.steps[0] if run.steps else 0)
    if early > hot or _collapsed(run):
        return  # died of too large a step
    ratio, span = _usual(run, table, steps)
    factor = finetune_factor if regime.finetune(run) else 1.0
    if ratio >= small * factor or ratio == 0:
        return
    if done is None or done.points < 20:
        raise Unsure("updates are tiny, but the loss is too short to say what that costs", needs_steps=steps)
    numbers = {"ratio": ratio, "start": done.first, "now": done.now, "largest_early": early}
    found = course.learned(run)
    if found.yes and found.low > course.SOME:
        return
    grave = ratio < tiny * factor or span[1] - span[0] >= 200
    yield Evidence(numbers, _slowest(run), span, severity=Severity.WARNING if grave else Severity.INFO)


def _usual(run: Run, table: Matrix, steps: int) -> tuple[float, tuple[int, int]]:
    """What nearly all layers stay below, after warm-up and while the rate was at least half of its peak."""
    rate, peak = regime.lr(run), regime.peak_lr(run)
    source = table if len(table) else run.series("update_ratio").finite()
    keep = source.steps >= regime.start(run)
    if len(rate) and peak > 0:
        keep &= ~(rate.at(source.steps) < 0.5 * peak)
    part = source.where(keep)
    if len(part) < 5 or part.steps[-1] - part.steps[0] < steps:
        raise Unsure("too few steps at the full learning rate", needs_steps=steps)
    span = (int(part.steps[0]), int(part.steps[-1]))
    if isinstance(part, Matrix):
        known = part.values[:, np.isfinite(part.values).any(axis=0)]
        if not known.size:
            raise Unsure("no weight is large enough to judge its updates", needs_steps=steps)
        return float(np.quantile(np.nanmedian(known, axis=0), 0.9)), span
    return float(np.median(part.values)), span


def _slowest(run: Run) -> tuple[str, ...]:
    table = params.update_ratios(run)
    if not len(table):
        return ()
    usual = np.array([np.nanmedian(c) if np.isfinite(c).any() else math.inf for _, c in table.columns()])
    return tuple(table.names[i] for i in np.argsort(usual)[:3] if math.isfinite(usual[i]))


def _collapsed(run: Run) -> bool:
    """Outputs no longer depend on the input: the network died, and small updates are the consequence."""
    spread = run.series("output_std").finite().values
    return len(spread) >= 10 and spread[0] > 0 and float(np.median(spread[-5:])) < 1e-2 * float(np.max(spread[:5]))


def _from_rate(run: Run, done: Progress | None) -> Iterator[Evidence]:
    """Without updates: a flat loss at a rate that is tiny for any optimizer."""
    rate = regime.lr(run)
    peak = regime.peak_lr(run)
    if done is None or done.points < 20 or not 0 < peak <= 1e-6 or regime.finetune(run):
        return
    if abs(done.gain) < 2 and done.trend.direction is not Direction.FALLING:
        numbers = {"lr": peak, "start": done.first, "now": done.now, "ratio": math.nan}
        span = (int(rate.steps[0]), int(rate.steps[-1]))
        yield Evidence(numbers, steps=span, say="rate", confidence=Confidence.SUGGESTIVE)
