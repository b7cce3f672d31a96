"""`recompiles`: how many graphs torch's compiler has made so far, whatever its backend; read from its own counters."""

from __future__ import annotations

import sys
from typing import Any

from traindx.probe import Probe, Reading, Scene


class Compilation(Probe):
    """`recompiles` on full steps and at the end, in programs that call torch.compile."""

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        return self.last(scene)

    def last(self, scene: Scene) -> Reading | None:
        made = graphs() if scene.compiled else None
        return {"recompiles": made} if made is not None else None


def graphs() -> float | None:
    """Graphs compiled so far in this process; None where the compiler keeps no such count."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    return float(counters["frames"].get("ok", 0)) if counters else None


PROBES = [Compilation]
