"""Early stopping that knows the noise: has the validation loss risen, or does it only shake? (CATALOGUE 2.6)"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

from traindx.stats import overfit_na

NEAR = 20  # training losses before an evaluation that stand for the training loss at it
LEAST = 8  # evaluations


class Stopping:
    """Hears what is written, and answers from memory: the answer is worked out once per evaluation."""

    def __init__(self) -> None:
        self._near: deque[float] = deque(maxlen=NEAR)
        self._val: list[float] = []
        self._train: list[float] = []
        self._answer, self._judged = False, 0

    def heard(self, values: Mapping[str, Any]) -> None:
        """A record that was written."""
        train, val = values.get("loss/train"), values.get("loss/val")
        if train is not None and math.isfinite(train):
            self._near.append(train)
        if val is not None and math.isfinite(val) and self._near:
            self._val.append(val)
            self._train.append(statistics.median(self._near))

    def now(self, negative: bool = False) -> bool:
        """True once the validation loss has risen beyond its own noise while the training loss continued falling."""
        if len(self._val) > max(self._judged, LEAST - 1):
            self._judged = len(self._val)
            self._answer = overfit_na(self._val, self._train, negative=negative or min(self._val) < 0).fired is not None
        return self._answer
