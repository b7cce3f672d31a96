"""A limit on the gradient norm that the user set: a line and an event when it is crossed, at every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from traindx.plain import say
from traindx.probes.drive.recorder import Recorder


class NormAlarm:
    """Looks at the norm of every step as soon as it is a number; never waits for the device."""

    def __init__(self, recorder: Recorder, limit: float) -> None:
        self._recorder, self.limit = recorder, limit
        self._above = self._bad = False
        self._last = -1
        recorder.scene.every_norm = True
        recorder.on_step.append(self)
        recorder.on_arrival.append(self)

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        norm = row.get("grad_norm")
        if not isinstance(norm, float) or step <= self._last:
            return
        self._last = step
        bad, above = not math.isfinite(norm), norm > self.limit
        if (bad and not self._bad) or (above and not bad and not self._above):
            what = f"is {norm}" if bad else f"{norm:.4g} is above {self.limit:g}"
            say(f"step {step}: the gradient norm {what}")
            self._recorder.event("grad_alert", {"norm": norm, "limit": self.limit}, step)
        self._bad, self._above = bad, above
