"""Collecting points of many metrics that each count for themselves."""

from __future__ import annotations

from array import array

import numpy as np

from traindx.importers.table import Log, Track


class Tracks:
    """Points by metric, in the order in which they came."""

    def __init__(self) -> None:
        self._points: dict[str, tuple[array[int], array[float], array[float], array[float]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._points)

    def add(self, name: str, step: float, value: float, when: float | None = None) -> None:
        """One point of one metric."""
        found = self._points.get(name)
        if found is None:
            found = self._points[name] = (array("q"), array("d"), array("d"), array("d"))
        found[0].append(self._count)
        found[1].append(step)
        found[2].append(value)
        found[3].append(np.nan if when is None else when)
        self._count += 1

    def log(self, kind: str, source: str, unit: str = "step") -> Log:
        """All of it as one log."""
        log = Log(kind, source, unit=unit, shared=False)
        for name, (rows, steps, values, times) in self._points.items():
            when = np.array(times)
            log.tracks[name] = Track(
                np.array(rows, np.int64), np.array(steps), np.array(values), when if np.isfinite(when).all() else None
            )
        return log
