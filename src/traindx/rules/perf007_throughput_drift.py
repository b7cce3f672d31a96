"""Steps take longer and longer.

## What it sees

The logarithm of the step time (or of the inverse of a logged throughput), per token where lengths are known: a proven
rising slope, and a last eighth at least 15 % above the first. A warning needs half as much again, a rise in nearly every
eighth and at least ten seconds of training: a busy machine makes steps uneven, but it does not make them climb evenly.

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

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "PERF007",
    needs={"time/step | throughput": 50},
    says="steps became {ratio:.2f} times as slow ({before:.3g} to {after:.3g} {unit})",
    fix="Compare a profile of early and late steps: growing lists, hooks registered again, torch.cat onto history, "
    "loggers that keep all.",
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
    steps, times, unit = _times(run, warm)
    if len(times) < 40:
        return
    logs = np.log(times)
    slope = stats.block_theil(logs, alpha=0.02)
    _, eighths = stats.block_means(logs, 8)
    typical = np.array([float(np.median(p)) for p in np.array_split(logs, 8)])
    grew = math.exp(float(typical[-1] - typical[0]))
    if slope.lo <= 0 or grew < ratio or float(eighths[-1]) <= float(eighths[0]):
        return
    even = int(np.count_nonzero(np.diff(typical) > 0)) >= 6 and float(np.diff(typical).max()) < 0.6 * float(
        typical[-1] - typical[0]
    )
    spent = float(times.sum()) * regime.interval(run, "time/step") if unit == "s" else math.inf
    severity = Severity.WARNING if grew >= grave and even and spent >= least_s else Severity.INFO
    values = {"ratio": grew, "before": math.exp(float(typical[0])), "after": math.exp(float(typical[-1])), "unit": unit}
    yield Evidence(values, ("time/step",), (int(steps[0]), int(steps[-1])), "", severity)


def _times(run: Run, warm: int) -> tuple[Ints, Floats, str]:
    """Steps and the time of each, per token where the length of batches is known."""
    times = run.series("time/step").finite()
    times = times.where(times.values > 0)
    if len(times) >= 50:
        length = run.series("batch/length").finite()
        size = run.series("batch/size").finite()
        work = np.ones(len(times))
        for load in (length, size):
            if len(load) and float(np.min(load.values)) > 0:
                known = load.at(times.steps)
                work = work * np.where(np.isfinite(known), known / np.median(load.values), 1.0)
        skip = int(np.searchsorted(times.steps, times.steps[0] + warm))  # steps, of which a log may hold every tenth
        return times.steps[skip:], (times.values / work)[skip:], "s"
    speed = run.series("throughput").finite()
    speed = speed.where(speed.values > 0)
    skip = min(warm, len(speed) // 10)
    return speed.steps[skip:], (1.0 / speed.values)[skip:], "s per unit"
