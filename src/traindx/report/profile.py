"""A profiler window, read for the user: what the time of a step goes into, and what that limits it by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from traindx import facts
from traindx.run import Run

_IDLE = 0.7  # busy for less than this share of the time: something else is waited for (CATALOGUE PERF005)
_COPIES = 0.1  # CATALOGUE PERF010
_WAIT = 0.05
_SHORT_US = 15.0


def sentences(run: Run) -> list[str]:
    """What was profiled, where the time goes, and what limits the step; nothing without a window (`--profiler`)."""
    profile = facts.table(run, "perf.profile")
    steps, busy = facts.number(profile.get("steps")), facts.number(profile.get("busy"))
    if not (math.isfinite(steps) and math.isfinite(busy)):
        return []
    device = "the processor" if str(profile.get("device", "cpu")).startswith("cpu") else "the device"
    ops, each = facts.number(profile.get("ops_per_step"), 0.0), facts.number(profile.get("median_kernel_us"), 0.0)
    said = [f"{steps:.0f} steps under the profiler: {device} computes {busy:.0%} of the time, in {ops:.0f} operations a step."]
    if largest := _largest(profile.get("top")):
        said.append("Most of it: " + ", ".join(f"{name} {share:.0%}" for name, share in largest) + ".")
    return [*said, _limit(run, profile, device, busy, each)]


def _largest(top: object, most: int = 4) -> list[tuple[str, float]]:
    rows = [r for r in top if isinstance(r, Mapping)] if isinstance(top, Sequence) and not isinstance(top, str) else []
    named = [(str(r.get("op", ""))[:80].removeprefix("aten::"), facts.number(r.get("share"))) for r in rows]
    return [(name, share) for name, share in named[:most] if name and math.isfinite(share)]


def _limit(run: Run, profile: Mapping[str, object], device: str, busy: float, each: float) -> str:
    copies, sent = (facts.number(profile.get(k), 0.0) for k in ("copy_share", "h2d_share"))
    data, step = run.series("time/data").finite().values, run.series("time/step").finite().values
    wait = float(np.median(data)) / float(np.median(step)) if len(data) and len(step) and np.median(step) > 0 else 0.0
    if wait > _WAIT and busy < _IDLE:
        return f"It waits for data ({wait:.0%} of a step): PERF001 says what to do."
    if sent > _COPIES:
        return f"Transfers from the host take {sent:.0%} of it: pin_memory, and non_blocking copies of the next batch."
    if copies > _COPIES:
        return f"Copies between layouts and types take {copies:.0%} of it: they compute nothing (PERF010)."
    if busy < _IDLE and each < _SHORT_US:
        return (
            f"{device[0].upper()}{device[1:]} waits for Python between short operations (median {each:.2g} µs): launch-bound."
        )
    if busy < _IDLE:
        return f"The rest passes in Python: {device} is not what limits the step."
    return (
        "The step is bound by computing: a smaller model, lower precision or torch.compile would help, more workers would not."
    )
