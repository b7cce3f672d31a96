"""Single batches with an extreme loss; the weights are unharmed.

## What it sees

A record more than twelve robust deviations above the median of the 200 before it, and at least a quarter of everything
gained so far. The loss is ordinary right after it. A few are a remark. It is a warning when they come back at the same
place of every epoch, equally often, with the same few heights, or with the same batch fingerprint. Then certain samples
are wrong. Where such records are common (more than one in fifty) there must be a gap between them and all others.
Otherwise the losses are heavy-tailed by nature, and nothing is reported.

## Why it matters

One corrupt sample can dominate the gradient of its batch, and does so again in every epoch.

## What else looks like this

- LOSS006: the next records stay high; the weights were hit.
- Losses near zero after a long fit: a single misread sample stands out a thousandfold and means nothing. So the
  deviation must also be a share of the gain.
- Rare tokens, long sequences, a small last batch.

## What to do

Look at the samples of those steps; drop or repair them; validate inputs; or limit the loss per sample (Huber,
clipping)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Ints, Run, Series
from traindx.stats import Spike


@rule(
    "LOSS007",
    needs={"loss/train": 250},
    says={
        "": "single batches had an extreme loss {often}; the worst was {peak:.4g} at step {worst}, where {base:.4g} is usual",
        "repeating": "the same {count} batches have an extreme loss every time they come; the worst was {peak:.4g} at step "
        "{worst}, where {base:.4g} is usual",
    },
    fix="Look at the samples of step {worst}; drop or repair them, or clip the loss per sample.",
    severity=Severity.INFO,
    unless=("rl", "adversarial"),
)
def bad_batch(
    run: Run,
    *,
    share: float = 0.25,  # of the gain so far
    natural: float = 0.02,  # more often than this the tail is the distribution
    least_repeats: int = 3,
) -> Iterator[Evidence]:
    if regime.logged_by_epoch(run):
        return  # a record is a mean over an epoch: no single batch can be seen
    series = regime.curve(run)
    y = series.values
    if len(y) < 250:
        raise Unsure("too few finite losses", needs_steps=250)
    best = np.minimum.accumulate(stats.running_median(y, 25))
    start = float(np.median(y[:10]))
    spikes = stats.spike_events(y)
    lone = spikes.batch
    if len(lone) > natural * len(y) and not _apart(series, lone, spikes.state):
        return
    found = _each_once([s for s in lone if s.peak - s.base > share * max(start - float(best[s.index]), 0.0)])
    if not found:
        return
    worst = max(found, key=lambda s: s.peak - s.base)
    steps = np.array([int(series.steps[s.index]) for s in found])
    numbers = {
        "count": len(found),
        "worst": int(series.steps[worst.index]),
        "peak": worst.peak,
        "base": worst.base,
        "z": worst.z,
        "events": [int(s) for s in steps[:20]],
    }
    again = (
        _same_place(run, steps, least_repeats)
        or _same_content(run, series, found, least_repeats)
        or _regular(run, series, steps)
        or _same_heights(y[[s.index for s in found]])
    )
    span = (int(steps[0]), int(steps[-1]))
    yield Evidence(numbers, steps=span, say="repeating" if again else "", severity=Severity.WARNING if again else None)


def _each_once(spikes: list[Spike], near: int = 2) -> list[Spike]:
    """One event a batch: the step after a bad batch stands out because the bad one moved the weights."""
    out: list[Spike] = []
    for s in spikes:
        if out and s.index - out[-1].index <= near:
            out[-1] = max(out[-1], s, key=lambda e: e.peak - e.base)
        else:
            out.append(s)
    return out


def _apart(series: Series, lone: tuple[Spike, ...], state: tuple[Spike, ...], least: int = 50) -> bool:
    """Whether the extreme batches are a class of their own: nearly all far above the highest of the others.

    The first records have nothing to be measured by, and those after a jump of the weights are another matter.
    """
    at = np.array([s.index for s in lone])
    above = series.values - stats.running_median(series.values, 51)
    judged = np.arange(len(above)) >= least
    judged[at] = False
    for jump in state:
        judged[jump.index : jump.index + least] = False
    rest = above[judged]
    if len(rest) < least:
        return False
    return float(np.quantile(above[at], 0.2)) > 3 * float(np.quantile(rest, 0.995)) and len(at) < 0.2 * len(above)


def _same_heights(values: Floats, least: int = 10, often: int = 5, near: float = 0.1) -> bool:
    """The same few heights again and again, as the same samples give them; a tail that is natural has them all."""
    if len(values) < least or float(np.min(values)) <= 0:
        return False
    logs = np.sort(np.log(values))
    groups = np.split(logs, np.flatnonzero(np.diff(logs) > near) + 1)
    return sum(len(g) for g in groups if len(g) >= often and float(np.ptp(g)) < 1.5 * near) >= 0.8 * len(logs)


def _regular(run: Run, series: Series, steps: Ints) -> bool:
    """As many in every epoch: far more even than chance would scatter them, so they are the same samples reshuffled."""
    per = regime.steps_per_epoch(run)
    if per is None or per < 10:
        return False
    epochs = (int(series.steps[-1]) - int(series.steps[0])) // per
    counts = np.bincount(np.clip((steps - int(series.steps[0])) // per, 0, None), minlength=epochs)[:epochs]
    seen = counts[int(np.argmax(counts > 0)) :]
    return len(seen) >= 6 and float(np.mean(seen)) >= 0.8 and float(np.var(seen)) < 0.4 * float(np.mean(seen))


def _same_place(run: Run, steps: Ints, least: int) -> bool:
    """At least three events whose distances are whole epochs: chance is small when an epoch has many steps."""
    per = regime.steps_per_epoch(run)
    if per is None or per < 20 or len(steps) < least:
        return False
    phase = steps % per
    hits = [int(np.count_nonzero(np.minimum((phase - p) % per, (p - phase) % per) <= max(1, per // 100))) for p in phase]
    return max(hits) >= least and max(hits) > 0.5 * len(steps)


def _same_content(run: Run, series: Series, found: list[Spike], least: int) -> bool:
    prints = run.series("batch/fingerprint")
    if not len(prints):
        return False
    wanted = np.array([int(series.steps[s.index]) for s in found])
    seen = prints.at(wanted[np.isin(wanted, prints.steps)])  # of other steps the fingerprint is not known
    seen = seen[np.isfinite(seen)]
    return len(seen) >= least and len(np.unique(seen)) <= len(seen) - 2
