"""Batches that the script leaves out: forwards in training that no backward followed, and whether their loss was finite."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

from traindx.measures import look, readable
from traindx.probe import Scene
from traindx.probes.drive.recorder import Recorder
from traindx.probes.read.common.passes import Pass, Pending, first_tensor, node_of, scalar

FACT = "loop.left_out"


def broken(output: Any) -> bool | None:
    """Whether the first tensor of a model's output holds NaN or infinity; None where that cannot be known at once."""
    found = first_tensor((output,), {})
    if found is None or not readable(found):
        return None
    total = look((found.detach() * 0).sum())
    return None if total is None else total != total


class LeftOut:
    """Counts them all; of how many the loss is known depends on what was looked at."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.batches = self._looked = self._broke = 0
        self._output: weakref.ref[Tensor] | None = None  # of the latest forward
        recorder.sources.append(self._facts)

    def returns(self, output: Any) -> None:
        """A forward with a graph gave this."""
        found = first_tensor((output,), {})
        self._output = None if found is None else weakref.ref(found)

    def look_back(self, latest: Pass) -> None:
        """The next forward begins, and no backward has followed the latest one so far."""
        output, self._output = self._output and self._output(), None
        if output is not None and broken(output):
            latest.broke = True

    def passed_over(self, left: Sequence[Pass], passes: Sequence[Pass], waiting: Iterable[Pending], scene: Scene) -> None:
        """A backward has not gone through these passes, of all there were."""
        values = [(w.node, w.value) for w in waiting]
        if scene.full:
            outputs = (first_tensor((one.output,), {}) for one in scene.taped())
            values += [(node_of(t), scalar(t)) for t in outputs if t is not None]
        all_heard = scene.full and scene.taped_whole
        ends = {p.serial: after.first for p, after in pairwise(passes)}
        for p in left:
            own = [v for at, v in values if isinstance(v, float) and p.first <= at < ends.get(p.serial, math.inf)]
            finite = all(map(math.isfinite, own))
            if own and (all_heard or not finite):
                p.broke = p.broke or not finite
            p.left = True
            self.count(p.broke)

    def count(self, broke: bool | None, times: int = 1) -> None:
        """One more batch was left out."""
        self.batches += times
        if broke is not None:
            self._looked += times
            self._broke += times * broke
        if broke and times > 0:
            self._recorder.event("nan_hidden", {"how": "skipped"})

    def _facts(self) -> dict[str, Any]:
        return {FACT: {"batches": self.batches, "looked": self._looked, "broke": self._broke}} if self._broke else {}
