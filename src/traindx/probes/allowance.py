"""Leave to do more than the step asks for: a small share of the time, spent in short bursts."""

from __future__ import annotations

import time

_SHORT_STEP_S = 3e-3  # as in governor.py: a step counts as at least this long

clock = time.perf_counter


class Allowance:
    """Grants work while what was spent stays below `share` of the elapsed time, `burst` times in a row.

    Bursts matter: whether a batch equals the one before it is only known when both were looked at.
    """

    def __init__(self, share: float = 0.001, burst: int = 4) -> None:
        self.share, self.burst = share, burst
        self.spent_s = 0.0
        self.steps = 0
        self._begun = clock()
        self._left = 0

    def granted(self) -> bool:
        if self._left > 0:
            self._left -= 1
            return True
        elapsed = max(clock() - self._begun, self.steps * _SHORT_STEP_S)
        if self.spent_s >= self.share * elapsed:
            return False
        self._left = self.burst - 1
        return True

    def step(self, steps: int) -> None:
        """So many updates were made."""
        self.steps = steps

    def spend(self, seconds: float) -> None:
        self.spent_s += seconds
