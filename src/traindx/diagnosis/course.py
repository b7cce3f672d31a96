"""What goes with a verdict: from which step or checkpoint to go on, and what it costs to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from traindx.run import Run

LONGEST = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))


def start(run: Run, verdict: str, step: int | None) -> str:
    """Where to go on from, as a sentence; empty where nothing is to be done.

    >>> start(Run.of({"loss/train": [1.0, 0.9]}), "restart", None)
    'Start again from the first step: nothing trained so far is worth keeping.'
    """
    if verdict == "restart":
        return "Start again from the first step: nothing trained so far is worth keeping."
    if verdict in ("wait", "fix-evaluation"):
        return f"Go on from where it is (step {run.steps[1]}): the weights are sound." if run.steps else ""
    if verdict == "stop-keep-best":
        best = _best(run)
        return f"Keep {_checkpoint(run, best)}: its validation is the best." if best is not None else ""
    return f"Resume from {_checkpoint(run, step)}." if step is not None else ""


def waiting(run: Run, verdict: str, step: int | None, forecast: Mapping[str, Any] | None) -> str:
    """What letting it run as it is would cost or bring, as a clause; empty where there is nothing to decide."""
    if not run.steps:
        return ""
    first, last = run.steps
    if verdict == "restart":
        return f"{_effort(run, last - first + 1)} are lost already, and so is every further one"
    if verdict == "fix-and-resume" and step is not None:
        lost = last - step
        if lost > 0:
            return f"{_effort(run, lost)} since then have to be trained again, and so has every further one"
        return "what is trained stays usable, but every step at fault is worth less than one that is mended"
    if verdict == "fix-evaluation":
        return "training loses nothing; until it is mended no checkpoint can be chosen by it"
    if verdict == "stop-keep-best":
        best = _best(run)
        since = f"; {_effort(run, last - best)} since the best one brought nothing" if best is not None and last > best else ""
        return f"more steps are not expected to improve validation{since}"
    if verdict == "wait":
        return _ahead(run, last, forecast)
    return ""


def _ahead(run: Run, last: int, forecast: Mapping[str, Any] | None) -> str:
    """The price of waiting and what it buys; without a forecast, when to look again."""
    told = forecast or {}
    if "forecast" not in told or "at_step" not in told:
        again = last + max(1, (last - (run.steps or (0, 0))[0]) // 4)
        return f"no forecast can be given; look again at step {again}, after {_effort(run, again - last)}"
    more = max(1, int(told["at_step"]) - last)
    return f"{_effort(run, more)} more, for a loss of {told['forecast']:.4g} instead of {told.get('now', float('nan')):.4g}"


def _effort(run: Run, steps: int) -> str:
    """Steps, and the time they take where it was recorded."""
    word = f"{steps:,} step{'s' if steps != 1 else ''}"
    pace = run.series("time/step").finite()
    return f"{word} (about {_duration(steps * float(np.median(pace.values)))})" if len(pace) else word


def _duration(seconds: float) -> str:
    for unit, word in LONGEST:
        if seconds >= 2 * unit:
            return f"{seconds / (unit or 1):.0f} {word}" if seconds >= 1 else "a second"
    return ""


def _checkpoint(run: Run, step: int) -> str:
    """The newest checkpoint seen being saved up to that step; a log knows of none, then the step alone."""
    saves = [e.step for e in run.events_of("checkpoint")]
    before = [s for s in saves if s <= step]
    if before:
        return f"the checkpoint of step {max(before)}" + (f", the last one up to step {step}" if max(before) < step else "")
    if saves:
        return f"step {step}; no checkpoint was saved up to there (the first is of step {min(saves)})"
    return f"step {step} or the last checkpoint before it"


def _best(run: Run) -> int | None:
    for name, lowest in (("loss/val", True), ("accuracy/val", False)):
        curve = run.series(name).finite()
        if len(curve):
            at = int(np.argmin(curve.values) if lowest else np.argmax(curve.values))
            return int(curve.steps[at])
    return None
