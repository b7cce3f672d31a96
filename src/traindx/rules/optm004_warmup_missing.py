"""The warm-up is missing: the first steps ran at the full learning rate and set the run back.

## What it sees

The learning rate does not rise in the first 50 steps, and an early update exceeds 5 % of a weight's size. The loss rose
well above its start (or spiked) within the first 200 steps and later fell at the same rate. So the cold start was the
problem, not the rate.

## Why it matters

Adam's second moments are empty at first and its steps full-sized; attention and LayerNorm suffer. The lost ground is small or
large, but it is free to avoid.

## What else looks like this

- OPTM002: the run never recovers; the rate itself is too high.
- Many networks do well without warm-up.

## What to do

Linear warm-up over max(2/(1−β₂), 1 % of the steps), about 2,000 steps at β₂ = .999; or RAdam.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.regime import params
from traindx.regime.curves import falls, noise_of, progress
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM004",
    needs={"loss/train": 100, "lr": 20},
    says="the run starts without a warm-up: the loss first jumped from {start:.4g} to {peak:.4g} and took {back} steps to "
    "recover",
    fix="Warm the learning rate up linearly over {steps} steps.",
    severity=Severity.INFO,
    explains=("LOSS006",),
    unless=("adversarial", "rl"),
    at="optimizer rate",
)
def warmup_missing(
    run: Run,
    *,
    early: float = 0.05,  # CATALOGUE OPTM004
    within: int = 200,
    costly: float = 0.05,  # share of the run lost to the set-back that makes it a warning
) -> Iterator[Evidence]:
    if regime.warmup_end(run) is not None:
        return
    series = regime.curve(run)
    y = series.values
    if len(series) < 100:
        raise Unsure("too few finite losses", needs_steps=100)
    first = int(series.steps[0])
    head = series.between(hi=first + within)
    if len(head) < 30:
        raise Blind("the first steps were not recorded", "loss/train")
    moved, where, _ = params.early_update(run, first)
    start, sigma = float(np.median(y[:3])), noise_of(y)
    smooth = stats.running_median(head.values, 5)
    peak = int(np.argmax(smooth))
    if smooth[peak] < start + max(6 * sigma, 0.1 * abs(start)) or (math.isfinite(moved) and moved <= early):
        return
    done = progress(series)
    later = series.where(np.arange(len(series)) >= len(series) // 4)
    if done is None or done.now > start or not falls(later.values):
        return  # never recovered: OPTM002
    over = np.flatnonzero((series.steps > head.steps[peak]) & (stats.running_median(y, 5) <= start))
    back = int(series.steps[over[0]] - first) if len(over) else int(series.steps[-1] - first)
    numbers = {
        "start": start,
        "peak": float(smooth[peak]),
        "within": int(head.steps[peak] - first),
        "back": back,
        "early": moved,
    }
    numbers["steps"] = _advised(run, series.steps[-1] - first)
    grave = back > costly * (series.steps[-1] - first) and (
        facts.has_layer(run, "Attention", "Transformer") or regime.adam_like(run) is True
    )
    sure = Confidence.STRONG if math.isfinite(moved) else Confidence.SUGGESTIVE
    yield Evidence(numbers, where, (first, first + back), severity=Severity.WARNING if grave else None, confidence=sure)


def _advised(run: Run, length: float) -> int:
    groups = facts.rows(run, "optimizer.groups")
    betas = groups[0].get("betas") if groups else None
    beta = facts.number(betas[1], 0.999) if isinstance(betas, list | tuple) and len(betas) == 2 else 0.999
    return int(min(max(2 / max(1 - beta, 1e-4), 0.01 * length), 0.1 * length) or 1)
