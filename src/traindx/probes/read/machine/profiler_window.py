"""A window of torch.profiler over a few steps, on request, read into a handful of numbers: `perf.profile`.

The profiler slows the steps it looks at several times; so it is asked for (`traindx run --profiler 10`, or
`watch(…, profiler=10)`), runs once, after the first steps are over, and its trace is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from traindx import innards
from traindx.probe import Probe, Scene

BEGIN = 20  # updates: what is slow once (caches, allocators, compilers) is over by then
TOP = 8  # operations that are named
_COPIES = ("aten::copy_", "aten::_to_copy", "aten::clone", "aten::contiguous")


class Window(Probe):
    """`perf.profile`, when `perf.window` asks for it."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self._first = 0
        self._begun = 0.0
        self._read: dict[str, Any] = {}

    def after_step(self, scene: Scene, optimizer: Any) -> None:
        wanted = scene.facts.get("perf.window")
        if not wanted or self._read or optimizer is not scene.optimizer:
            return
        if self._profiler is None:
            if scene.step >= BEGIN and not innards.profiling():  # the user's own goes first
                self._start(scene)
        elif scene.step - self._first >= wanted:
            self._stop(scene)

    def _start(self, scene: Scene) -> None:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=kinds)
        self._profiler.start()
        self._first, self._begun = scene.step, time.perf_counter()

    def _stop(self, scene: Scene) -> None:
        wall_s, steps = time.perf_counter() - self._begun, scene.step - self._first
        self._profiler.stop()
        if steps > 0:
            self._read = summary(self._profiler.events(), steps, wall_s)
        self._profiler = None

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        if scene.ended and self._profiler is not None:
            self._stop(scene)
        return {"perf.profile": self._read} if self._read else {}


def summary(events: Any, steps: int, wall_s: float) -> dict[str, Any]:
    """A trace as shares of its wall time: of the device's own time where there is one, else of the processor's."""
    device = any(e.device_type != torch.autograd.DeviceType.CPU for e in events)
    if device:
        kernels = [e for e in events if e.device_type != torch.autograd.DeviceType.CPU]
        spent = [(str(e.name), float(e.self_device_time_total)) for e in kernels]
    else:
        spent = [(str(e.name), float(e.self_cpu_time_total)) for e in events if str(e.name).startswith("aten::")]
    total: dict[str, float] = {}
    for name, us in spent:
        total[name] = total.get(name, 0.0) + us
    whole = max(wall_s * 1e6, 1e-9)
    largest = sorted(total.items(), key=lambda item: -item[1])[:TOP]
    return {
        "steps": steps,
        "device": "cuda" if device else "cpu",
        "busy": min(sum(total.values()) / whole, 1.0),
        "median_kernel_us": float(np.median([us for _, us in spent])) if spent else 0.0,
        "ops_per_step": len(spent) / steps,
        "copy_share": min(sum(us for n, us in total.items() if n in _COPIES or "Memcpy DtoD" in n) / whole, 1.0),
        "h2d_share": min(sum(us for n, us in total.items() if "Memcpy HtoD" in n) / whole, 1.0),
        "top": [{"op": name, "share": us / whole} for name, us in largest],
    }


PROBES = [Window]
