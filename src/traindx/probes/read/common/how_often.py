"""How often the dearer probes speak among the full steps."""

from __future__ import annotations

from typing import Any

from traindx.probe import Scene

EARLY = (0, 1, 2, 5, 10, 19)  # steps that dear probes always read: the start of a run decides much


class Rhythm:
    """True on a few early steps, then on every n-th full step of each optimizer and whenever the run has grown by half."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._since: dict[int, int] = {}
        self._last = 0

    def beat(self, scene: Scene, optimizer: Any) -> bool:
        """Whether to read now."""
        if scene.first:
            if scene.step in EARLY:
                self._last = scene.step
                return True
            return False
        key = id(optimizer)
        self._since[key] = self._since.get(key, 0) + 1
        if self._since[key] >= self._every or scene.step > 1.5 * max(self._last, 20):
            self._since[key] = 0
            self._last = scene.step
            return True
        return False
