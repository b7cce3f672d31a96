"""Torch's compiler as its own counters tell it, whatever its backend: `recompiles`, and when and why it gave up.

Shapes that a compiled model is given are noted on full steps.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from traindx.probe import TRAIN, Forward, Probe, Reading, Scene

_MOST = 64  # different shapes of its inputs


class Compilation(Probe):
    """`recompiles` on full steps and at the end, `perf.shapes` and `perf.uncompiled`, in programs that call torch.compile."""

    ordinary = ()

    def __init__(self) -> None:
        self._shapes: set[tuple[Any, ...]] = set()
        self._gave_up: dict[str, Any] = {}

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if scene.compiled and forward.phase == TRAIN and len(self._shapes) < _MOST:
            given = (*forward.args, *forward.kwargs.values())
            self._shapes.add(tuple(tuple(t.shape) for t in given if isinstance(t, Tensor)))

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        return self.last(scene)

    def last(self, scene: Scene) -> Reading | None:
        made = graphs() if scene.compiled else None
        if made is None:
            return None
        if not self._gave_up and (reason := given_up()) is not None:
            self._gave_up = {"step": scene.step, "graphs": made, "reason": reason}
        return {"recompiles": made}

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        found: dict[str, Any] = {"perf.shapes": len(self._shapes)} if self._shapes else {}
        return found | ({"perf.uncompiled": self._gave_up} if self._gave_up else {})


def graphs() -> float | None:
    """Graphs compiled so far in this process; None where the compiler keeps no such count."""
    counters = getattr(_utils(), "counters", None)
    return float(counters["frames"].get("ok", 0)) if counters else None


def given_up() -> str | None:
    """Why code had to be compiled so often that the compiler now runs it as it is ("": it does not say); None: it did not."""
    counters = getattr(_utils(), "counters", None) or {}
    told = " ".join(str(what)[:100] for what in counters.get("unimplemented", ()))
    if "recompile limit" not in told and "cache_size_limit" not in told:
        return None
    failures = [every for every in getattr(_utils(), "guard_failures", {}).values() if every]
    last = str(max(failures, key=len)[0]) if failures else ""
    return last.partition(": ")[2][:200]


def _utils() -> Any:
    return sys.modules.get("torch._dynamo.utils")


PROBES = [Compilation]
