"""Gradient clipping is set wrongly: gradient clipping is always on, never on, or in the wrong place.

## What it sees

The share of updates whose norm before clipping exceeds the threshold, over the last 500, and the order of calls. Facts
at once: clipping before `unscale_`, clipping after the update, clipping by value. More than 80 % clipped is a warning
only where it does harm. That is plain SGD whose loss does not fall, crawls, or still falls at the end with steps a
hundred times shorter. Adam-like optimizers divide by the size of the gradient anyway, so there it is a remark. Never
clipped although the norm bursts, or a threshold ten times above 99 % of the norms, is a remark.

## Why it matters

Clipping every step turns the gradient into a direction of fixed length; clipping none gives no protection. Before `unscale_`
the threshold is compared with norms that are 65,536 times too large.

## What else looks like this

- A threshold of 1.0 that is exceeded all the time is usual in language-model recipes with Adam.
- OPTM002: the gradients are large because the steps are.

## What to do

Set the threshold to the 95 % quantile of at least 300 unclipped norms after warm-up. Order: backward, unscale_, clip, step,
update.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Event, Run, Series


@rule(
    "OPTM006",
    subject="clipping",
    needs={"clip/norm | event:clip_before_unscale | event:clip_after_step": 20},
    says={
        "unscale": "gradients are clipped before unscale_ ({often}): the threshold is compared with norms "
        "multiplied by the loss scale",
        "after": "gradients are clipped after the update ({often}): the clipping does nothing",
        "value": "clip_grad_value_ changes the direction of the gradient (limit {value:.3g})",
        "always": "{share:.0%} of the updates were clipped: the usual norm {usual:.3g} is {ratio:.1f} times the threshold "
        "{threshold:.3g}",
        "never": "clipping at {threshold:.3g} never acted; 99 % of the norms are below {p99:.3g}",
        "loose": "clipping at {threshold:.3g} never acted, although the norm spiked to {peak:.3g}, {height:.0f} times its "
        "usual size",
    },
    fix={
        "": "Set the threshold to {p95:.3g}, the 95 % quantile of the norms.",
        "unscale": "Call scaler.unscale_(optimizer) before clipping.",
        "after": "Clip between backward() and optimizer.step().",
        "value": "Use clip_grad_norm_ instead.",
        "never": "Lower the threshold to {p95:.3g} or drop the clipping.",
    },
    severity=Severity.INFO,
    at="clip",
)
def clipping_misset(
    run: Run,
    *,
    chronic: float = 0.8,  # CATALOGUE OPTM006
    often: float = 0.5,
    window: int = 500,
) -> Iterator[Evidence]:
    wrong = list(_misplaced(run))
    yield from wrong
    if any(e.say != "value" for e in wrong):
        return  # norms met at the wrong place say nothing about the threshold
    norm = run.series("clip/norm").finite()
    limit = run.series("clip/threshold").finite()
    norm = norm.where(norm.steps >= regime.start(run))
    if not len(limit):
        return
    if len(norm) < 20:
        raise Unsure("too few clip calls", needs_steps=20)
    recent = Series(norm.steps[-window:], norm.values[-window:])
    threshold = limit.at(recent.steps)
    threshold = np.where(np.isfinite(threshold), threshold, limit.values[0])
    share = float(np.mean(recent.values > threshold))
    p50, p95, p99 = stats.quantiles(norm.values, 0.5, 0.95, 0.99)
    usual = float(np.median(threshold))
    numbers = {"share": share, "usual": p50, "threshold": usual, "ratio": p50 / usual if usual else 0.0, "p95": p95, "p99": p99}
    span = (int(recent.steps[0]), int(recent.steps[-1]))
    if share > often:
        yield Evidence(numbers, steps=span, say="always", severity=_severity(run, share, chronic))
    elif share == 0 and len(norm) >= 100:
        yield from _idle(norm, numbers, span)


def _severity(run: Run, share: float, chronic: float) -> Severity:
    """Adam and kin divide by the size of the gradient, so a shrink cancels; plain SGD takes shorter steps."""
    return Severity.WARNING if regime.adam_like(run) is False and share > chronic else Severity.INFO


def _idle(norm: Series, numbers: dict[str, float], span: tuple[int, int]) -> Iterator[Evidence]:
    peak = float(np.max(norm.values))
    bursts = stats.robust_z(np.log(np.maximum(norm.values, 1e-300))) > 8
    height = peak / max(numbers["usual"], 1e-300)
    if bursts.any() and height > 10 and peak < numbers["threshold"]:
        yield Evidence({**numbers, "peak": peak, "height": height}, steps=span, say="loose")
    elif 0 < numbers["p99"] < numbers["threshold"] / 10:
        yield Evidence(numbers, steps=span, say="never")


def _misplaced(run: Run) -> Iterator[Evidence]:
    for kind, say in (("clip_before_unscale", "unscale"), ("clip_after_step", "after"), ("clip_value", "value")):
        events = run.events_of(kind)
        if not events:
            continue
        numbers = {"count": _count(events), "value": float(events[0].data.get("value") or 0.0)}
        severity = Severity.WARNING if say != "value" else Severity.INFO
        yield Evidence(
            numbers, steps=(events[0].step, events[-1].step), say=say, severity=severity, confidence=Confidence.EXACT
        )


def _count(events: list[Event]) -> int:
    return int(sum(e.data.get("count", 1) for e in events))
