"""The run went on differently after it was resumed.

## What it sees

The trial `resume` saves, continues and reloads, and names the first field that differs: a fact. A checkpoint that was read
and holds the state of an optimizer or a scheduler, a model that was loaded, and an optimizer or a scheduler that begins from
nothing all the same: a remark where only the weights were taken, as fine-tuning does; a warning where the other state was
restored. In a record or a log: a
loss level that jumps up at the resume by more than six deviations and 10 %, against how much the same statistic varies
elsewhere in the run, while the learning rate did not jump; and the same where `load_state_dict` was called in mid-training.

## Why it matters

A resume that forgets the optimizer's moments, the scheduler, the scaler or the place in the data costs hundreds of steps,
or quietly trains on the same samples again.

## What else looks like this

- OPTM010: the optimizer's state is empty after the resume; that is the fact behind it.
- A schedule of another kind for a second stage: a remark.
- A new learning rate or new data by intent: the jump is expected.
- A fold or a task that begins from the first weights with an optimizer of its own: another training.
- LOSS006: a spike that has nothing to do with the resume.

## What to do

Save and restore model, optimizer, scheduler, scaler, random states and the position in the data. If the state is lost, warm
the learning rate up again over 200 to 1,000 steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "REPR003",
    needs={"fact:trial.resume | fact:resume.left | event:resume | event:load": 1},
    says={
        "": "a resumed run differs from an uninterrupted one, first in {where}",
        "left": "the checkpoint that was read holds the state of the {where}, which was not restored; the {taken} was",
        "weights": "only the weights of the checkpoint that was read were restored, not the {where} it holds",
        "jump": "the loss level jumped from {before:.4g} to {after:.4g} at the resume (step {step}, {z:.0f} deviations)",
        "loaded": "the loss level jumped from {before:.4g} to {after:.4g} at step {step}, where weights were loaded while "
        "training went on ({z:.0f} deviations)",
    },
    fix={
        "": "Save and restore {where} as well.",
        "left": "Call load_state_dict of the {where} too, after it is made and before the first step.",
        "weights": "Nothing, if this is a new training from these weights; to resume, load the {where} too.",
        "jump": "Restore optimizer, scheduler, scaler, random states and data position; else warm up again for "
        "200–1,000 steps.",
        "loaded": "Look at which weights `load_state_dict` was given there, and resume from the checkpoint before it.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("LOSS006", "LOSS001", "LOSS003", "GRAD003", "LOSS005"),
)
def resume_mismatch(
    run: Run,
    *,
    z: float = 6.0,  # CATALOGUE REPR003
    relative: float = 0.1,
    width: int = 20,
) -> Iterator[Evidence]:
    trial = facts.table(run, "trial.resume")
    if trial.get("equal") is False:
        yield Evidence({}, (str(trial.get("field") or "an unnamed field"),))
    if left := facts.table(run, "resume.left"):
        yield from _left(left)
    curve = regime.curve(run)
    doubt = False
    for step, say in _seams(run):
        at = int(np.searchsorted(curve.steps, step))
        if at < 3 * width or len(curve) - at < width:
            doubt = doubt or say == "jump"
            continue
        found = _shift(curve.values, at, width)
        if found is not None and not _new_rate(run, step) and found[2] > z and found[1] > found[0] + relative * abs(found[0]):
            values = {"before": found[0], "after": found[1], "z": found[2], "step": step}
            yield Evidence(values, ("loss/train",), (step, step + width), say, Severity.WARNING, Confidence.STRONG)
            break
    if doubt and not trial:
        raise Unsure(f"needs {3 * width} losses before and {width} after the resume")


def _left(left: Mapping[str, Any]) -> Iterator[Evidence]:
    parts, taken = (tuple(str(p) for p in left.get(key) or ()) for key in ("left", "taken"))
    if parts and taken:
        meant = parts == ("scheduler",) and left.get("same_schedule") is False
        severity = Severity.INFO if meant else Severity.WARNING
        yield Evidence({"taken": " and ".join(taken)}, parts, None, "left", severity)
    elif parts:
        yield Evidence({}, parts, None, "weights", Severity.INFO)


def _seams(run: Run) -> Iterator[tuple[int, str]]:
    """Where the run was resumed, and where the weights of a model in training were loaded over (another training may do so)."""
    yield from ((e.step, "jump") for e in run.events_of("resume"))
    anew = [e.step for e in run.events_of("retrained")]
    for event in run.events_of("load"):
        trained = event.data.get("what") == "model" and "digest" in event.data  # else a target network, a teacher, a copy
        if trained and not any(abs(event.step - step) <= 1 for step in anew):
            yield event.step, "loaded"


def _new_rate(run: Run, step: int, factor: float = 1.5) -> bool:
    """Whether the learning rate is another after the resume: then the jump is expected."""
    before, after = regime.lr(run).at([step - 1, step + 5])
    return bool(before > 0 and after > 0 and max(after / before, before / after) > factor)


def _shift(values: Floats, at: int, width: int) -> tuple[float, float, float] | None:
    """Level before and after a point, and how unusual that step is among the same statistic elsewhere before it."""
    before, after = float(np.median(values[at - width : at])), float(np.median(values[at : at + width]))
    places = range(width, at - width, max(1, width // 2))
    usual = np.array([np.median(values[i : i + width]) - np.median(values[i - width : i]) for i in places])
    if len(usual) < 2:
        return None
    spread = max(stats.mad(usual), stats.noise_sigma(values[:at]) / math.sqrt(width), 1e-12)
    return before, after, (after - before - float(np.median(usual))) / spread
