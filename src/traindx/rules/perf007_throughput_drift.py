"""Steps take longer and longer.

## What it sees

The logarithm of the step time (or of the inverse of a logged throughput), per token where lengths are known. The slope
must rise significantly, and the last eighth be at least 15 % above the first. A warning needs 50 % more, a rise in
nearly every eighth, and at least ten seconds of training. A busy machine makes steps uneven, but not evenly slower. The
processor time of the training thread needs no such delay. Other programs do not add to it, so an even climb is work
that the loop itself does.

## Why it matters

Something accumulates: a list that is searched, a graph that grows, a log that is rewritten, files that are spread wider.
What costs 50 % now costs 500 % tomorrow.

## What else looks like this

- Sequences or images that become longer by plan: time per token is flat.
- PERF002: memory grows too; then that is the root.
- Heat: the clock of the device falls once and stays there.
- Another job on the machine: a jump, not a slope.

## What to do

Compare a profile of early and late steps. Look for growing lists, hooks that are registered again, `torch.cat` onto
history, loggers that keep all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Ints, Run, Series


@rule(
    "PERF007",
    needs={"time/step | time/cpu | throughput": 50},
    says="steps take {ratio:.2f} times as long as at the start ({before:.3g} → {after:.3g} {unit}){part}",
    fix="Compare a profile of early and late steps. Look for growing lists, hooks registered again, torch.cat "
    "onto a history, loggers that keep everything.",
    severity=Severity.WARNING,
    unless=("curriculum",),
)
def throughput_drift(
    run: Run,
    *,
    ratio: float = 1.15,  # CATALOGUE PERF007
    grave: float = 1.5,
    least_s: float = 10.0,  # a few seconds of a shared machine prove nothing
    warm: int = 20,
) -> Iterator[Evidence]:
    steps, times = _processor(run, warm)
    climb = _climb(times, ratio)
    if climb is not None and climb.even and climb.grew >= grave:
        yield _evidence(run, climb, steps, "time/cpu", "s of processor time", Severity.WARNING)
        return
    steps, times, unit = _times(run, warm)
    climb = _climb(times, ratio)
    if climb is None:
        return
    spent = float(times.sum()) * regime.interval(run, "time/step") if unit == "s" else math.inf
    severity = Severity.WARNING if climb.grew >= grave and climb.even and spent >= least_s else Severity.INFO
    yield _evidence(run, climb, steps, "time/step", unit, severity)


class _Climb(NamedTuple):
    before: float
    after: float
    grew: float
    even: bool  # a rise in nearly every eighth, none of them most of it


def _climb(times: Floats, ratio: float) -> _Climb | None:
    """A proven rise of at least that ratio, or nothing."""
    if len(times) < 40:
        return None
    logs = np.log(times)
    slope = stats.block_theil(logs, alpha=0.02)
    _, eighths = stats.block_means(logs, 8)
    typical = np.array([float(np.median(p)) for p in np.array_split(logs, 8)])
    rises, total = np.diff(typical), float(typical[-1] - typical[0])
    if slope.lo <= 0 or math.exp(total) < ratio or float(eighths[-1]) <= float(eighths[0]):
        return None
    even = int(np.count_nonzero(rises > 0)) >= 6 and float(rises.max()) < 0.6 * total
    return _Climb(math.exp(float(typical[0])), math.exp(float(typical[-1])), math.exp(total), even)


PARTS = {
    "data": "waiting for data",
    "forward": "the forward",
    "backward": "the backward",
    "optimizer": "the update",
    "rest": "the loop's own code, outside forward, backward and update",
}


def _part(run: Run, steps: Ints, most: float = 0.6) -> str:
    """Where most of the growth is, of the parts of a step that were timed; empty when it is spread, or nothing was timed."""
    grew = {}
    for name in PARTS:
        times = run.series(f"time/{name}").finite().between(int(steps[0]), int(steps[-1])).values
        eighth = len(times) // 8
        grew[name] = float(np.median(times[-eighth:]) - np.median(times[:eighth])) if eighth >= 5 else 0.0
    total = sum(max(g, 0.0) for g in grew.values())
    name = max(grew, key=lambda n: grew[n])
    return f", in {PARTS[name]}" if total > 0 and grew[name] > most * total else ""


def _evidence(run: Run, climb: _Climb, steps: Ints, signal: str, unit: str, severity: Severity) -> Evidence:
    values = {"ratio": climb.grew, "before": climb.before, "after": climb.after, "unit": unit, "part": _part(run, steps)}
    return Evidence(values, (signal,), (int(steps[0]), int(steps[-1])), "", severity)


def _processor(run: Run, warm: int) -> tuple[Ints, Floats]:
    """Processor time per update, per token where the length of batches is known."""
    used = run.series("time/cpu").finite()
    used = used.where((used.values > 0) & (used.steps >= warm))
    return used.steps, used.values / _work(run, used.steps)


def _times(run: Run, warm: int) -> tuple[Ints, Floats, str]:
    """Steps and the time of each, per token where the length of batches is known."""
    times = run.series("time/step").finite()
    times = times.where(times.values > 0)
    if len(times) >= 50:
        skip = int(np.searchsorted(times.steps, times.steps[0] + warm))  # steps, of which a log may hold every tenth
        return times.steps[skip:], (times.values / _work(run, times.steps))[skip:], "s"
    speed = run.series("throughput").finite()
    speed = speed.where(speed.values > 0)
    skip = min(warm, len(speed) // 10)
    return speed.steps[skip:], (1.0 / speed.values)[skip:], "s per unit"


def _work(run: Run, steps: Ints) -> Floats:
    """How large the batches of these steps were, against the median."""
    work = np.ones(len(steps))
    for load in (run.series("batch/length").finite(), run.series("batch/size").finite()):
        if len(load) and float(np.min(load.values)) > 0:
            # single sizes that were read between the two updates of a GAN, or of a last batch, must not stand for what follows
            known = Series(load.steps, stats.running_median(load.values, 9)).at(steps)
            work = work * np.where(np.isfinite(known), known / np.median(load.values), 1.0)
    return work
