"""The cheap look at every loss: is this step unlike the ones before it?"""

from __future__ import annotations

import math


class LossGate:
    """A running level and spread of the loss; `z` says how far above its level a new one is.

    >>> gate = LossGate()
    >>> max(gate.z(1.0 + 0.01 * (i % 3)) for i in range(50)) < 6
    True
    >>> gate.z(2.0) > 6
    True
    """

    ABNORMAL = 6.0  # CATALOGUE 2.4: the level at which a spike may begin
    _EARLY = 20  # losses before it may speak
    _PACE = 0.05

    def __init__(self) -> None:
        self._n = 0
        self._level = self._spread = 0.0

    def z(self, loss: float) -> float:
        """How many mean absolute deviations (as a normal σ) the loss is above its level; 0 early on."""
        self._n += 1
        if self._n == 1:
            self._level = loss
            return 0.0
        away = loss - self._level
        sigma = max(1.2533 * self._spread, 1e-9 * abs(self._level), 1e-30)
        z = away / sigma if self._n > self._EARLY else 0.0
        pace = max(self._PACE, 1.0 / self._n)
        held = math.copysign(min(abs(away), 4.0 * sigma), away) if z > self.ABNORMAL else away
        self._level += pace * held
        self._spread += pace * (abs(held) - self._spread)
        return z
