"""The plan of looks: which steps are looked at in full. It belongs to the run, not to the clock.

It is a function of the step's number, of what happens in the run (a spike, a value that is not finite, another training that
begins) and of the size of the model, in counts. The same program with the same seed is looked at on the same steps on every
machine, busy or not. The budget stretches the plan by whole octaves. What looking has cost is booked in `Costs`; nothing is
decided by it.
"""

from __future__ import annotations

import math
from typing import Any

FIRST = 20  # steps that are all looked at: what kills a run is mostly visible in its first steps (CATALOGUE 1.3)
CLOSE = 100  # steps that are followed at length between the looks
DENSE = 1000  # steps of the dense start: a look every `EVERY` steps
EVERY = 16
BURST, BURSTS = 4, 64  # in the dense start so many steps in a row are followed at length, once in so many
WIDEST = 200  # steps between two looks from then on; more only where it is no more than 1 % of the steps so far
OCTAVES = 3  # the most by which the budget stretches or thickens the dense start
SMALL_ELEMENTS, SMALL_TENSORS = 1e5, 50  # a model within both is looked at twice as often in the dense start
USUAL = 0.01  # the budget that stretches nothing
EXTRA = 20  # looks beyond the plan, for what happens in the run, and one more in twenty steps


class Plan:
    """Says whether a step is looked at.

    >>> plan = Plan(0.01)
    >>> [step for step in range(18, 70) if plan.full(step)]
    [18, 19, 32, 48, 64]
    >>> [step for step in range(120, 140) if not plan.skips(step)]
    [128, 129, 130, 131]
    >>> [step for step in range(1000, 1700) if plan.full(step)]
    [1000, 1200, 1400, 1600]
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget  # share of the time that looking should take; None: every step is looked at
        self._wanted = 0 if budget is None else OCTAVES if not budget else round(math.log2(USUAL / budget))
        self._small = False
        self.until = -1  # the last step of those that are looked at because of what happened
        self._extra = 0

    def measure(self, tensors: int, elements: int) -> None:
        """The model's parameters are known: small ones are looked at more often."""
        self._small = 0 < elements <= SMALL_ELEMENTS and tensors <= SMALL_TENSORS

    @property
    def octave(self) -> int:
        """By how many octaves the dense start is stretched."""
        return max(-OCTAVES, min(self._wanted - self._small, OCTAVES))

    def dense(self, step: int) -> bool:
        """Whether it belongs to the dense start."""
        return step < DENSE

    def full(self, step: int) -> bool:
        """Whether `step` is looked at."""
        if self.budget is None or step <= self.until:
            return True
        if step < DENSE:
            every = EVERY << self.octave if self.octave >= 0 else EVERY >> -self.octave
            return step < FIRST >> max(self._wanted - 1, 0) or step % every == 0
        return step % _width(step) == 0

    def skips(self, step: int) -> bool:
        """Whether no more than the loss, the rate and the time of `step` are wanted."""
        if self.budget is None or step < CLOSE or (step < DENSE and step % BURSTS < BURST):
            return False
        return not self.full(step)

    def next(self, step: int) -> int:
        """The next step, this one or later, that is not skipped."""
        if step >= DENSE:
            return step + -step % _width(step)
        while step < DENSE and self.skips(step):
            step += 1
        return step

    def alarm(self, step: int, steps: int = 3) -> None:
        """Something happened at `step`: look at the next ones, as long as such looks stay rare."""
        if self._extra < EXTRA + step // EXTRA:
            self.insist(step, steps)

    def insist(self, step: int, steps: int = 3) -> None:
        """Look at the next steps in any case: for what happens a few times in a run."""
        self._extra += max(0, step + steps - max(self.until, step))
        self.until = max(self.until, step + steps)

    def told(self) -> dict[str, Any]:
        """The plan in words that a reader of the record can follow."""
        return {"first": FIRST, "dense": DENSE, "octave": self.octave, "widest": WIDEST, "extra": self._extra}


def _width(step: int) -> int:
    """Steps between two looks after the dense start: whole octaves, and no more than 1 % of the steps so far."""
    return WIDEST << max(0, int(math.log2(step / (100 * WIDEST))))


class Costs:
    """What observing has cost: seconds of our own in the seconds of the steps, the dense start apart."""

    def __init__(self) -> None:
        self.spent_s = self.elapsed_s = 0.0
        self.later_spent_s = self.later_elapsed_s = 0.0
        self.steps = self.full_steps = 0

    def account(self, step: int, step_s: float, own_s: float, was_full: bool, steps: int = 1) -> None:
        """Book one step (or so many): how long it took, and how much of that was ours."""
        self.steps += steps
        self.elapsed_s += step_s
        self.spent_s += own_s
        self.full_steps += was_full
        if step >= DENSE:
            self.later_elapsed_s += step_s
            self.later_spent_s += own_s

    def told(self) -> dict[str, float]:
        """What was spent: `share` counts from the end of the dense start on (of all when it never ended), `total_share` all."""
        total = self.spent_s / self.elapsed_s if self.elapsed_s else 0.0
        return {
            "share": self.later_spent_s / self.later_elapsed_s if self.later_elapsed_s else total,
            "total_share": total,
            "seconds": self.spent_s,
            "start_seconds": self.spent_s - self.later_spent_s,
            "start_steps": min(self.steps, DENSE),
            "full_steps": self.full_steps,
        }
