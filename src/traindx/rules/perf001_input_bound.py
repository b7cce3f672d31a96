"""Training waits for data.

## What it sees

The time spent in the loader's `next` against the time of a step, medians after 20 warm steps. Above 15 % it is a
remark. A warning needs more than 30 %, a wait of at least 10 ms a step and 20 s in total. More than 55 %, or a
cached-batch trial that was 15 % faster, also counts. Tiny networks on a CPU wait a millisecond for a tenth of a
millisecond of work, which is harmless. Pauses at the first batch of every epoch (workers that start again) are
reported separately. Without a loader, more than half of a step that passes outside forward, backward and update is a
remark: batches are made there, or other work is done.

## Why it matters

Every second of waiting is a second the device does nothing. It is the commonest reason for a slow run and the cheapest
to fix.

## What else looks like this

- On an accelerator the work runs behind the scenes: a long wait in `next` may hide behind it. Then it is a hypothesis that
  `traindx trial cached-batch train.py` settles.
- PERF004, PERF005: the device is idle although batches are there.
- The first epoch is slow because files are not yet cached: the median of a longer run forgets it.

## What to do

Raise `num_workers` until the wait is below 5 % (not beyond the cores), `pin_memory=True` and `prefetch_factor=4` for an
accelerator, `persistent_workers=True` against pauses at epoch starts, decode once and store. Small data in memory are
fastest with `num_workers=0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "PERF001",
    needs={"time/data": 50, "time/step": 50},
    says={
        "": "{share:.0%} of a step is spent waiting for data ({wait_ms:.3g} of {step_ms:.3g} ms, {workers} workers)",
        "cached": "{share:.0%} of a step is spent waiting for data ({wait_ms:.3g} ms); with a cached batch it runs "
        "{speedup:.2f} times as fast",
        "outside": "{share:.0%} of a step is spent outside forward, backward and update ({wait_ms:.3g} of {step_ms:.3g} "
        "ms), and no DataLoader was seen",
        "boundary": "the first batch of an epoch takes {wait_s:.2g} s: {share:.0%} of the time is spent starting epochs",
    },
    fix={
        "": "Raise num_workers (now {workers}) until the wait is below 5 % of a step; decode once; pin_memory for an "
        "accelerator.",
        "outside": "If you make batches there, use a DataLoader with workers or prepare them once before training. "
        "Otherwise look for what else the loop computes.",
        "boundary": "Set persistent_workers=True on the loader.",
    },
    severity=Severity.WARNING,
    at="dataset",
)
def input_bound(
    run: Run,
    *,
    share: float = 0.15,  # CATALOGUE PERF001
    grave: float = 0.3,
    least_ms: float = 10.0,  # below it a CPU run waits for Python, not for data
    speedup: float = 1.15,
    warm: int = 20,
    most: float = 0.55,  # of a step: beyond this it is worth a word however short the run
    lost_s: float = 20.0,  # seconds waited in all; a smaller share of a shorter run is a remark
) -> Iterator[Evidence]:
    steps, wait, whole = _times(run, warm)
    if len(wait) < 30:
        return
    usual, step = float(np.median(wait)), float(np.median(whole))
    part = usual / step if step > 0 else 0.0
    cached = facts.number(run.fact("perf.cached_speedup"))
    workers = facts.number(facts.table(run, "data.loader").get("num_workers"), 0.0)
    values = {"share": min(part, 1.0), "wait_ms": 1e3 * usual, "step_ms": 1e3 * step, "workers": f"{workers:.0f}"}
    steady = part > share and usual > 1e-3
    if steady and cached >= speedup:
        severity = Severity.WARNING if 1e3 * usual >= least_ms / 2 else Severity.INFO
        yield Evidence({**values, "speedup": cached}, ("time/data",), None, "cached", severity)
    elif steady and not cached < speedup:  # a trial that found no gain ends the matter
        hidden = str(run.fact("device", "cpu")).partition(":")[0] not in ("cpu", "")
        worth = part > most or (part > grave and float(wait.sum()) >= lost_s)
        severity = Severity.WARNING if worth and 1e3 * usual >= least_ms else Severity.INFO
        yield Evidence(values, ("time/data",), None, "", severity, Confidence.SUGGESTIVE if hidden else Confidence.STRONG)
    if not steady and (outside := _outside(run, warm)) is not None:
        yield outside
    elif not steady:
        yield from _boundaries(run, steps, wait, whole, usual)


def _times(run: Run, warm: int) -> tuple[Ints, Floats, Floats]:
    data, step = run.series("time/data").finite(), run.series("time/step").finite()
    at, a, b = np.intersect1d(data.steps, step.steps, return_indices=True)
    keep = slice(warm, None)
    return at[keep], np.maximum(data.values[a][keep], 0.0), np.maximum(step.values[b][keep], 0.0)


def _outside(run: Run, warm: int, most: float = 0.5, least_s: float = 1e-3) -> Evidence | None:
    """Where nothing is fetched from a loader: the part of a step that is neither the network's nor ours."""
    rest, step, own = (run.series(f"time/{n}").finite() for n in ("rest", "step", "traindx"))
    if (
        run.fact("data.brought_by") != "loss call"
        or len(rest) != len(step)
        or len(rest) < warm + 30
        or regime.reinforcement(run)
    ):
        return None
    ours = own.values if len(own) == len(step) else np.zeros(len(step))
    usual, whole = (float(np.median(np.maximum(s.values - ours, 0.0)[warm:])) for s in (rest, step))
    if usual < max(most * whole, least_s):
        return None
    values = {"share": min(usual / whole, 1.0), "wait_ms": 1e3 * usual, "step_ms": 1e3 * whole}
    return Evidence(values, ("time/rest",), None, "outside", Severity.INFO)


def _boundaries(
    run: Run, steps: Ints, wait: Floats, whole: Floats, usual: float, *, share: float = 0.1, least_s: float = 0.5
) -> Iterator[Evidence]:
    starts = np.array(sorted({e.step for e in run.events_of("epoch")}))
    per = regime.steps_per_epoch(run)
    if not len(starts) and per and per > 1:
        starts = np.arange(0, int(steps[-1]) + 1, per)
    first = np.isin(steps, starts)
    pauses = wait[first] - usual
    total = float(whole.sum())
    if first.sum() < 3 or total <= 0:
        return
    lost = float(np.maximum(pauses, 0).sum()) / total
    typical = float(np.median(wait[first]))
    if lost > share and typical > least_s and math.isfinite(lost):
        yield Evidence(
            {"wait_s": typical, "share": min(lost, 1.0)}, ("time/data",), (int(steps[0]), int(steps[-1])), "boundary"
        )
