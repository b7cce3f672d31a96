"""The gradient norm grows and keeps growing.

## What it sees

The global gradient norm (unscaled, before clipping) against its level in the 100 records after a fifth of the loss's
drop. The first steps are no reference: healthy norms rise up to a hundredfold there. It fires when the norm is rising
and ten times above that level, or thirty times without rising. Before that level exists: a hundredfold growth while the
loss is worse than at the start. When the run ended in NaN or infinity it looks at the last finite norms: a hundredfold
burst just before the end is the way it went.

## Why it matters

Growing gradients mean growing steps; the next stop is a spike, then NaN.

## What else looks like this

- GRAD003: single bursts, the level stays.
- WIRE004: gradients never cleared add up; successive gradients point the same way (cosine above .9).
- Accumulation without division, a loss that is a sum over a growing batch, AMP gradients that were not unscaled.
- An absolute limit ("a norm above 10") means nothing: it depends on the model and the loss.

## What to do

A tenth of the learning rate first. If bursts remain, clip at the 95 % quantile of the norms from before the onset. Then
better initialisation: orthogonal or identity and shorter sequences for recurrent layers, residual branches scaled by
1/√(2L).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.regime.curves import ends, level_of
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "GRAD002",
    needs={"grad_norm": 10},
    says={
        "": "the gradient norm rose from {base:.3g} to {now:.3g} ({growth:.0f}×), at first with a falling loss, and {rising}",
        "early": "the gradient norm rose from {base:.3g} to {now:.3g} ({growth:.0f}×) while the loss got worse",
        "burst": "the gradient norm rose from {base:.3g} to {now:.3g} ({growth:.2g}×) within {records} records, just "
        "before the run broke",
    },
    fix="Divide the learning rate by 10, then clip gradients.",
    explains=("GRAD003", "LOSS001", "NUMR001", "NUMR002", "NUMR003"),
)
def exploding_gradients(
    run: Run,
    *,
    limit: float = 10.0,  # CATALOGUE GRAD002: healthy later maximum .6–2.9
    flat_limit: float = 30.0,
    early_limit: float = 100.0,
    window: int = 200,
) -> Iterator[Evidence]:
    norm = run.series("grad_norm").finite()
    norm = norm.where(norm.values > 0)
    burst = _burst(run, norm, early_limit)
    if burst is not None:
        yield burst
        return
    if len(norm) < 20 or norm.steps[-1] - norm.steps[0] < 50:
        raise Unsure("too few finite gradient norms", needs_steps=50)
    base = _baseline(run, norm)
    if base is None:
        found = _early(run, norm, early_limit)
        if found is not None:
            yield found
        return
    level, since = base
    later = norm.between(lo=since)
    if len(later) < 20 or later.steps[-1] - since < 100:
        raise Unsure("too few steps since the loss began to fall", needs_steps=100)
    now = float(np.median(later.values[-min(50, len(later) // 4) :]))
    slope = stats.block_theil(np.log10(later.values[-window:]), alpha=0.02)
    rising = slope.lo > 0
    if now > limit * level and (rising or now > flat_limit * level):
        onset = int(later.steps[int(np.argmax(stats.running_median(later.values, 25) > 3 * level))])
        numbers = {
            "growth": now / level,
            "base": level,
            "now": now,
            "rising": "is still rising" if rising else "stays there",
            "limit": limit,
        }
        yield _told(run, numbers, (onset, int(later.steps[-1])))


def _told(run: Run, numbers: dict[str, Any], steps: tuple[int, int], say: str = "", how: Severity | None = None) -> Evidence:
    """The evidence with what to do, and the norm to clip at where norms from before the onset are known."""
    if (clip := regime.sound_norm(run, steps[0])) is not None:
        numbers["clip"] = clip
    return Evidence(numbers, _layers(run), steps, say, how, fix=regime.clip_advice(run, steps[0]))


def _baseline(run: Run, norm: Series) -> tuple[float, int] | None:
    """The median norm of the 100 records after a fifth of the drop, and the step from which on it may be compared."""
    loss = regime.curve(run)
    if len(loss) < 30:
        return None
    smooth = stats.running_median(loss.values, 9)
    start, best = level_of(loss.values, ends(len(loss))), float(np.min(smooth[ends(len(loss)) :]))
    noise = stats.noise_sigma(loss.values)
    if start - best < 3 * (noise if math.isfinite(noise) else 0.0) or start <= best:
        return None
    fell = int(loss.steps[int(np.argmax(smooth < start - 0.2 * (start - best)))])
    since = max(fell, regime.start(run))
    part = norm.between(lo=since, hi=since + max(100, (int(norm.steps[-1]) - since) // 10))
    if len(part) < 5:
        return None
    return float(np.median(part.values)), int(part.steps[-1])


def _early(run: Run, norm: Series, limit: float) -> Evidence | None:
    loss = regime.curve(run)
    base, now = float(np.median(norm.values[:20])), float(np.median(norm.values[-20:]))
    worse = len(loss) >= 10 and level_of(loss.values, -5) > level_of(loss.values, ends(len(loss)))
    if not worse or now < limit * base or stats.block_theil(np.log10(norm.values)).lo <= 0:
        return None
    numbers = {"growth": now / base, "base": base, "now": now}
    return _told(run, numbers, (int(norm.steps[0]), int(norm.steps[-1])), "early")


def _burst(run: Run, norm: Series, limit: float) -> Evidence | None:
    """The run ended in a non-finite loss or gradient: how did the norm go before?"""
    ended = [s for s in (run.series(regime.TRAIN), run.series("grad_norm")) if len(s) and not math.isfinite(s.last)]
    if not ended or len(norm) < 8:
        return None
    tail = min(10, len(norm) // 4)
    base = float(np.median(norm.values[: len(norm) - tail]))
    now = float(np.max(norm.values[-tail:]))
    if now < limit * base:
        return None
    onset = len(norm) - tail + int(np.argmax(norm.values[-tail:] > 3 * base))
    numbers = {"growth": now / base, "base": base, "now": now, "records": len(norm) - onset}
    return _told(run, numbers, (int(norm.steps[onset]), int(norm.steps[-1])), "burst", Severity.CRITICAL)


def _layers(run: Run) -> tuple[str, ...]:
    """The parameters that carry the norm at the last record, largest first."""
    table = run.matrix("grad_norm/param")
    if not len(table):
        return ()
    last = np.where(np.isfinite(table.values[-1]), table.values[-1], 0.0)
    order = np.argsort(-last)
    return tuple(table.names[i] for i in order[:3] if last[i] > 0)
