"""What goes with a verdict: from which step or checkpoint to continue, and what it costs to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from traindx import breakdown, course
from traindx.run import Run

LONGEST = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))


def start(run: Run, verdict: str, step: int | None) -> str:
    """Where to continue from, as a sentence; empty where there is nothing to do.

    >>> start(Run.of({"loss/train": [1.0, 0.9]}), "restart", None)
    'After the fix, start again.'
    """
    if verdict == "restart" or (verdict == "fix-and-resume" and step is not None and step <= (run.steps or (0, 0))[0]):
        return "After the fix, start again."
    if verdict in ("wait", "fix-evaluation") and run.steps:
        if verdict == "wait" and not _goes_on(run):
            return "If you want a lower loss, train longer."
        return "Keep training; the weights are fine." if _goes_on(run) else "The weights are fine."
    if verdict in ("wait", "fix-evaluation"):
        return ""
    if verdict == "stop-keep-best":
        best = _best(run)
        return f"Keep {_checkpoint(run, best)}; it has the best validation." if best is not None else ""
    return "" if step is None else f"After the fix, resume from {_checkpoint(run, step)}."


def waiting(run: Run, verdict: str, step: int | None, forecast: Mapping[str, Any] | None) -> str:
    """What letting it run as it is would cost or bring, as sentences; empty where there is nothing to decide."""
    if not run.steps:
        return ""
    first, last = run.steps
    if not _goes_on(run):
        return _afterwards(run, verdict, step)
    if verdict == "restart":
        return f"Stop this run: further steps are wasted, like the {_effort(run, last - first + 1)} so far."
    if verdict == "fix-and-resume" and step is not None:
        lost = last - step
        if lost > 0:
            return f"Stop this run: the {_lost(run, step)} have to be repeated, and so would further ones."
        if skipped := _skipped(run):
            return f"{skipped}: you may let it run, and nothing has to be repeated."
        return "Each further step is partly wasted until you fix this."
    if verdict == "fix-evaluation":
        return "Do not pick checkpoints by this evaluation until it is fixed."
    if verdict == "stop-keep-best":
        best = _best(run)
        since = f" The {_effort(run, last - best)} since step {best} did not help." if best is not None and last > best else ""
        return f"More steps are not expected to improve validation.{since}"
    if verdict == "wait":
        return _ahead(run, last, forecast)
    return ""


def _goes_on(run: Run) -> bool:
    return run.fact("ended") in (None, "running", "detached")


def _afterwards(run: Run, verdict: str, step: int | None) -> str:
    """The same for a run that has ended: nothing is left to stop."""
    first, last = run.steps or (0, 0)
    if verdict == "restart" and not course.learned(run).yes:
        one = last == first
        return "This one step is lost." if one else f"The {_effort(run, last - first + 1)} so far are lost."
    if verdict == "fix-and-resume" and step is not None and last > step:
        return f"The {_lost(run, step)} have to be repeated."
    if verdict == "fix-and-resume" and (skipped := _skipped(run)):
        return f"{skipped}: nothing has to be repeated."
    if verdict == "fix-evaluation":
        return "Do not pick checkpoints by this evaluation until it is fixed."
    if verdict == "stop-keep-best" and (best := _best(run)) is not None and last > best:
        return f"The {_effort(run, last - best)} since the best validation did not help."
    return ""


def _lost(run: Run, step: int) -> str:
    """The steps that a run resumed at that step makes again."""
    first, last = run.steps or (0, 0)
    return f"{_effort(run, last - step)} since step {step}" if step > first else f"{_effort(run, last - first + 1)} so far"


def _skipped(run: Run) -> str:
    """The updates that the guard skipped, as half a sentence; empty where there were none."""
    skipped = breakdown.guarded(run)
    done = "1 update was" if skipped == 1 else f"{skipped} updates were"
    return f"{done} skipped and the weights are clean" if skipped else ""


def _ahead(run: Run, last: int, forecast: Mapping[str, Any] | None) -> str:
    """The price of waiting and what it buys; without a forecast, when to look again."""
    told = forecast or {}
    if "forecast" not in told or "at_step" not in told:
        again = last + max(1, (last - (run.steps or (0, 0))[0]) // 4)
        return f"No forecast is possible yet; look again at step {again}, after {_effort(run, again - last)}."
    more = max(1, int(told["at_step"]) - last)
    now = told.get("now", float("nan"))
    return f"{_effort(run, more)} more should bring the loss from {now:.4g} to about {told['forecast']:.4g}."


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
        return f"the checkpoint of step {max(before)}" + (f", the last one before step {step}" if max(before) < step else "")
    if saves:
        return f"step {step}; no checkpoint was saved before it (the first is at step {min(saves)})"
    return f"step {step} or the last checkpoint before it"


def _best(run: Run) -> int | None:
    for name, lowest in (("loss/val", True), ("accuracy/val", False)):
        curve = run.series(name).finite()
        if len(curve):
            at = int(np.argmin(curve.values) if lowest else np.argmax(curve.values))
            return int(curve.steps[at])
    return None
