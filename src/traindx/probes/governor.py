"""The budget: how often everything may be read, so that observing costs no more than its share of the training time.

The start is free: the first 20 steps (read in full on large models only as far as `DEAR_S` reaches) and `START_S` seconds
of processor time: on a crowded machine the clock runs while others work, and a run would be read no further than they let it.
From then on no more is spent than the budget's share of the time that has passed since, unless something looks abnormal.
"""

from __future__ import annotations

FIRST = 20  # steps that are always read in full: what kills a run is mostly visible in its first steps (CATALOGUE 1.3)
START_S = 1.0  # of our own processor time that every run has free: a short run is read closely, a long one does not feel it
DEAR_S = 2.0  # of it after which the first steps are no longer all read in full
CROWDED = 0.25  # the least share of the processor that is believed: the start must end
ALWAYS = 3  # of the first steps that are read in full whatever they cost
SHORT_STEP_S = 3e-3  # a step shorter than this counts as this long: 1 % of 0.3 ms is not enough to see anything with
GROWTH = 1.15  # while free time is left: at least one full step each time the run has grown by this factor
SPARSE = 2.0  # the same where steps are so short that the plain look at each is more than the budget: 16 in a million
KEPT = 0.9  # of the budget is planned with; the rest is for what comes in between: alarms, facts, a slow disk
ODD = 5.0  # times what a lean step costs: more is no measure of lean steps (facts are written, another program had the core)
COMFORT = 4.0  # saved-up credit, in full steps: enough to follow a bad patch, too little to fall behind for long
DEBT = 20.0  # the most that is owed, in full steps: a bad patch must not make us blind for the rest of the run


class Governor:
    """Says whether the next step is one for everything.

    >>> g = Governor(0.01)
    >>> [g.full(step) for step in (0, 19)]
    [True, True]
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget  # share of wall time; None: everything every step
        self.spent_s = 0.0  # all of our own time
        self._worked_s = 0.0  # the same in processor time, as far as it is known
        self._had = 1.0  # share of the processor that our own work had when it was last measured
        self.elapsed_s = 0.0  # all step time
        self.later_spent_s = 0.0  # the same two since the start was over
        self.later_elapsed_s = 0.0
        self.steps = 0
        self.full_steps = 0
        self.start_steps = 0  # steps of the start
        self._credit = 0.0
        self._cost = 0.0  # smoothed extra cost of a full step, with what is written down one step later
        self._read: float | None = None  # that of the step before, if it was a full one
        self._lean = 0.0  # smoothed cost of a step that is not full
        self._earned = 0.0  # smoothed earnings of a step
        self._last = FIRST  # the latest full step, the first ones aside
        self._alarm = 0

    def _first(self, step: int) -> bool:
        return step < ALWAYS or (step < FIRST and self._worked_s < DEAR_S)

    @property
    def starting(self) -> bool:
        """Whether the first steps, or the free time of the start, are not over yet."""
        return self.steps < FIRST or self._worked_s < START_S

    @property
    def owing(self) -> bool:
        """Whether more was spent than earned: then even ordinary steps are only glimpsed."""
        return self.budget is not None and self._credit < 0 and not self.starting

    def alarm(self, steps: int = 3) -> None:
        """The next steps look abnormal: read them in full; one of them when too much is owed already."""
        self._alarm = steps if self.starting or self._credit > -COMFORT * self._cost else 1

    def insist(self, steps: int = 3) -> None:
        """Read the next steps in full whatever is owed: for what happens a few times in a run."""
        self._alarm = max(self._alarm, steps)

    def had(self, cpu_s: float, wall_s: float) -> None:
        """A piece of our own work took so long, and this much of it was processor time."""
        if wall_s > 0:
            self._had = min(max(cpu_s / wall_s, CROWDED), 1.0)

    def account(self, step: int, step_s: float, own_s: float, was_full: bool) -> None:
        """Book one step: how long it took, and how much of that was ours."""
        written = self._read is not None and not self.later_elapsed_s  # what the start's last full step has left
        start = step <= FIRST or self._worked_s < START_S or written
        self.steps += 1
        self.elapsed_s += step_s
        self.spent_s += own_s
        self._worked_s += own_s * self._had
        self.full_steps += was_full
        self.start_steps += start
        earned = KEPT * (self.budget or 0.0) * max(step_s - own_s, SHORT_STEP_S)
        extra = max(own_s - self._lean, 0.0)
        if self._read is not None:  # what a full step leaves to be written is part of its cost
            whole = self._read + (0.0 if was_full else extra)
            self._cost = whole if not self._cost else 0.7 * self._cost + 0.3 * whole
        elif not was_full:
            self._lean = own_s if not self._lean else 0.9 * self._lean + 0.1 * min(own_s, ODD * self._lean)
        self._read = extra if was_full else None
        if self.budget is None:
            return
        self._earned = earned if not self._earned else 0.9 * self._earned + 0.1 * earned
        credit = min(self._credit + earned - own_s, COMFORT * self._cost)
        if start:
            self._credit = max(credit, 0.0)  # what the start spends is not owed,
            return
        if not self.later_elapsed_s:
            credit = earned - own_s  # and what it has saved is not left over
        self._credit = max(credit, -DEBT * self._cost)
        self.later_elapsed_s += step_s
        self.later_spent_s += own_s

    def full(self, step: int) -> bool:
        """Whether `step` shall be read in full."""
        if self._first(step) or self.budget is None:
            return True
        if self._worked_s < START_S:
            due = step >= GROWTH * self._last
        else:  # where nothing can be saved up
            due = self._lean >= self._earned and step >= SPARSE * self._last
        if self._alarm > 0 or due or (self.budget > 0 and self._credit >= self._cost):
            self._alarm = max(self._alarm - 1, 0)
            self._last = step
            return True
        return False

    def cost(self) -> dict[str, float]:
        """What was spent: `share` counts from the end of the start on (of all when it never ended), `total_share` all."""
        total = self.spent_s / self.elapsed_s if self.elapsed_s else 0.0
        return {
            "share": self.later_spent_s / self.later_elapsed_s if self.later_elapsed_s else total,
            "total_share": total,
            "seconds": self.spent_s,
            "start_seconds": self.spent_s - self.later_spent_s,
            "start_steps": self.start_steps,
            "full_steps": self.full_steps,
        }
