"""How a run ended: finished, interrupted, crashed, still running; a log seldom says, then it is unknown."""

from __future__ import annotations

from dataclasses import dataclass

from traindx import facts, regime
from traindx.run import Run

NEARLY = 0.97  # of the planned steps: the last record of a log need not be the last step


@dataclass(frozen=True)
class Ended:
    """How it ended, and the sign of it as a clause."""

    how: str  # finished, interrupted, crashed, running, unknown
    why: str = ""
    share: float = 0.0  # of the planned steps that were made, where it was cut short; 0 where that is unknown

    @property
    def may_go_on(self) -> bool:
        """Whether it was cut short, or continues: then what has not happened yet may still happen."""
        return self.how in ("running", "interrupted", "crashed") and self.share < 0.5


def ended(run: Run) -> Ended:
    """How the run ended, from the first source that tells.

    >>> ended(Run.of({"loss/train": [2.0, 1.0]}, facts={"budget.planned_steps": 2})).how
    'finished'
    """
    told = run.fact("ended")
    if told in ("running", "detached"):
        return Ended("running", "it is still running" if told == "running" else "it was still running when we left")
    if told == "exception":
        kind = facts.table(run, "exception").get("type") or "an error"
        by_hand = kind in ("KeyboardInterrupt", "SystemExit")
        return Ended("interrupted", "it was stopped by hand") if by_hand else Ended("crashed", f"it ended with {kind}")
    if told == "killed":
        return Ended("interrupted", "it was killed")
    planned, last = regime.planned_steps(run), run.steps[1] + 1 if run.steps else 0
    if planned is not None and last < NEARLY * planned:
        return Ended("interrupted", f"{last} of {planned} planned steps were recorded", last / planned)
    if planned is not None:
        return Ended("finished", f"all {planned} planned steps were made")
    if told in ("closed", "exit"):
        return Ended("finished", "the program came to its end")
    rate = regime.lr(run).values
    if len(rate) >= 8 and rate[-1] <= 0.02 * rate.max():
        return Ended("finished", "the learning rate has reached its end")
    return Ended("unknown", "nothing says whether it was finished")
