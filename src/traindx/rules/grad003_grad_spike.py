"""The gradient norm spikes for one or a few steps.

## What it sees

Records whose logarithm lies more than eight robust deviations above the 200 before them, and at least five times the
usual norm. A few are a remark, five in 1,000 steps a warning, unless they are so common (more than one in fifty) that
the norm is simply heavy-tailed. It gives the quantiles to take a clipping threshold from. Where they were recorded,
it names the layers that carry more than half of the squared norm at the worst burst. Coarse logs are judged
afterwards against their neighbours. Where no burst stands out because the norm as a whole scatters over more than a
factor of e, and more than it did at first, it reports that instead.

## Why it matters

Spikes come one to ten steps before jumps of the loss, and one such step can ruin the weights. Clipping at the usual
norm is cheap.

## What else looks like this

- GRAD002: the level itself grows.
- LOSS007, DATA001: one corrupt or extreme batch; replay it on another checkpoint and it bursts there too.
- Rare tokens, long sequences, the first step after the accumulation changed.

## What to do

Clip at the 95 % quantile given here; β₂ .999 → .95; filter repeated n-grams and broken samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Ints, Run, Series


@rule(
    "GRAD003",
    needs={"grad_norm": 12},
    says={
        "": "the gradient norm spiked {often}; the worst was {height:.0f}× the usual {p50:.3g}, at step {worst} (95 "
        "% of norms are below {p95:.3g})",
        "scatter": "the gradient norm changes by a factor of {factor:.1f} from record to record (earlier {before:.1f}); 5 % "
        "of the norms exceed {p95:.3g}",
    },
    fix="Clip gradients at {clip:.3g}, the 95 % quantile of the norms.",
    severity=Severity.INFO,
)
def grad_spike(
    run: Run,
    *,
    deviations: float = 8.0,  # CATALOGUE GRAD003
    least_height: float = 5.0,  # bursts below this multiple of the usual norm cost nothing
    often: float = 5.0,  # per 1,000 steps
    natural: float = 0.02,
    scatter: float = 1.0,  # robust deviation of the logarithm; healthy logs stay below .5
) -> Iterator[Evidence]:
    norm = run.series("grad_norm").finite()
    norm = norm.where((norm.values > 0) & (norm.steps >= regime.start(run)))
    if len(norm) < 12:
        raise Unsure("too few finite gradient norms", needs_steps=12)
    at = _bursts(norm, deviations, least_height)
    at = np.array([i for i in at if not regime.is_muted(int(norm.steps[i]), regime.muted_after_jumps(run))], dtype=np.int64)
    if not len(at):
        yield from _scatter(norm, scatter)
        return
    worst = int(at[int(np.argmax(norm.values[at]))])
    usual = stats.running_median(norm.values, 51)[worst]
    p50, p95, p99 = stats.quantiles(norm.values, 0.5, 0.95, 0.99)
    sound = regime.sound_norm(run)  # norms from after a divergence are none to clip at
    steps = int(norm.steps[-1] - norm.steps[0]) + 1
    rate = 1000 * len(at) / steps
    numbers = {
        "count": len(at),
        "worst": int(norm.steps[worst]),
        "height": float(norm.values[worst] / max(usual, 1e-300)),
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "max": float(np.max(norm.values)),
        "per_thousand": rate,
        "events": [int(norm.steps[i]) for i in at[:20]],
        **({"clip": sound} if sound is not None else {}),
    }
    common = len(at) > natural * len(norm)
    many = len(at) >= 5 and rate >= often and not common
    few = len(norm) < 100
    yield Evidence(
        numbers,
        _carriers(run, int(norm.steps[worst])),
        (int(norm.steps[at[0]]), int(norm.steps[at[-1]])),
        severity=Severity.WARNING if many else None,
        confidence=Confidence.SUGGESTIVE if few or common else None,
        fix=""
        if sound is not None
        else "Divide the learning rate by 10: no norm from before the loss rose is known to clip at.",
    )


def _scatter(norm: Series, limit: float) -> Iterator[Evidence]:
    """No single burst stands out because all norms do: the spread of their logarithm is large, and larger than it was."""
    if len(norm) < 100:
        return
    quarter = len(norm) // 4
    before, now = (stats.mad(np.log(norm.values[part])) for part in (slice(0, quarter), slice(-quarter, None)))
    if now > limit and now > 1.3 * before:
        p50, p95, p99 = stats.quantiles(norm.values[-quarter:], 0.5, 0.95, 0.99)
        numbers = {
            "factor": float(np.exp(now)),
            "before": float(np.exp(before)),
            "p50": p50,
            "p95": p95,
            "p99": p99,
            "clip": p95,
        }
        yield Evidence(numbers, steps=(int(norm.steps[-quarter]), int(norm.steps[-1])), say="scatter")


def _bursts(norm: Series, deviations: float, height: float) -> Ints:
    logs = np.log(norm.values)
    if len(norm) >= 250:
        hot = np.flatnonzero(stats.robust_z(logs) > deviations)
    else:
        hot = np.array([s.index for s in stats.peaks(logs, high=deviations)], dtype=np.int64)
    usual = stats.running_median(norm.values, 51)
    hot = hot[norm.values[hot] > height * usual[hot]]
    return hot[np.diff(hot, prepend=-10) > 1] if len(hot) else hot


def _carriers(run: Run, step: int) -> tuple[str, ...]:
    """The parameters that together hold more than half of the squared norm at that step, where it was recorded."""
    table = run.matrix("grad_norm/param")
    row = np.flatnonzero(table.steps == step)
    if not len(row):
        return ()
    square = np.nan_to_num(table.values[row[-1]]) ** 2
    order = np.argsort(-square)
    total = float(square.sum())
    held = np.cumsum(square[order])
    return tuple(table.names[i] for i in order[: int(np.searchsorted(held, 0.5 * total)) + 1][:5]) if total > 0 else ()
