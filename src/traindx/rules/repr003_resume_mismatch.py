"""The run continued differently after it was resumed.

## What it sees

The trial `resume` saves, continues and reloads, and names the first field that differs: a fact. A checkpoint was read
that holds the state of an optimizer or a scheduler. The model was loaded from it, but the optimizer or scheduler starts
from nothing. This is a remark where only the weights were taken, as in fine-tuning, and a warning where other state was
restored. A learning rate that takes, after the resume, the very course it took at the first start: a warning where the
optimizer was restored, since then the epoch was lost. The same batches in the same order as after the first start: a
remark. In a record or a log: the loss level jumps up at the resume by more than six deviations and 10 %. The rest of
the run is the reference, and the learning rate did not jump. The same counts where `load_state_dict` was called during
training.

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
from traindx.run import Floats, Run, Series

_HABIT = 5  # [def] loads into one training: a restart or two, a rollback to the best occasionally, but no more


@rule(
    "REPR003",
    subject="load",
    needs={"fact:trial.resume | fact:resume.left | event:resume | event:load": 1},
    says={
        "": "a resumed run differs from an uninterrupted one, first in {where}",
        "left": "the checkpoint that was read holds the state of the {where}, which was not restored; the {taken} was",
        "weights": "only the weights of the checkpoint that was read were restored, not the {where} it holds",
        "anew": "the learning rate went back from {before:.3g} to {after:.3g} at the resume (step {step}) and the "
        "schedule starts again: the epoch was not restored",
        "order": "the first {count} batches after the resume (step {step}) are the ones the run began with: the random "
        "state was not restored",
        "jump": "the loss jumped from {before:.4g} to {after:.4g} at the resume (step {step}, {z:.0f} standard deviations)",
        "loaded": "the loss jumped from {before:.4g} to {after:.4g} at step {step}, where weights were loaded during "
        "training ({z:.0f} standard deviations)",
    },
    fix={
        "": "Save and restore {where} as well.",
        "left": "Call load_state_dict of the {where} too, after it is made and before the first step.",
        "weights": "No action needed if you start a new training from these weights; to resume, load the {where} too.",
        "anew": "Save the epoch (or step) and start the loop there; restore the scheduler, or set the rate from that epoch.",
        "order": "Save and restore the random states, or seed with the epoch, so that a resume draws new batches.",
        "jump": "Restore optimizer, scheduler, scaler, random states and data position, or warm up again for 200–1,000 steps.",
        "loaded": "Check which weights `load_state_dict` loaded there, and resume from the checkpoint before it.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("LOSS006", "LOSS001", "LOSS003", "GRAD003", "LOSS005"),
    at="load",
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
    for event in run.events_of("resume"):
        yield from _anew(run, event.step)
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


def _anew(run: Run, step: int, least: int = 5, went: float = 1.2) -> Iterator[Evidence]:
    """What begins again at a resume as it began at the first start."""
    rate = regime.lr(run)
    first = int(rate.steps[0]) if len(rate) else 0
    then, now = _same_places(rate, first, step)
    before = float(rate.between(hi=step - 1).values[-1]) if len(now) and step > first else math.nan
    moved = len(np.unique(then)) >= 3 and before > 0 and now[0] > 0 and max(before / now[0], now[0] / before) > went
    if len(now) >= least and moved and np.allclose(then, now, rtol=1e-5):
        kept = any(e.data.get("what") == "optimizer" and e.step == step for e in run.events_of("load"))
        values = {"before": before, "after": float(now[0]), "step": step}
        yield Evidence(values, ("lr",), (step, step), "anew", Severity.WARNING if kept else Severity.INFO, Confidence.STRONG)
    prints = run.series("batch/fingerprint").finite()
    then, now = _same_places(prints, int(prints.steps[0]) if len(prints) else 0, step)
    alike = int(np.argmin(np.append(then == now, False)))
    if alike >= least and len(np.unique(now[:alike])) >= 3 and not run.fact("data.order_repeats"):
        yield Evidence({"count": alike, "step": step}, (), (step, step), "order", Severity.INFO)


def _same_places(series: Series, first: int, step: int) -> tuple[Floats, Floats]:
    """Values after the first start and after the resume, where both were recorded at the same distance from it."""
    then, now = series.between(hi=step - 1), series.between(lo=step)
    _, a, b = np.intersect1d(then.steps - first, now.steps - step, return_indices=True)
    return then.values[a], now.values[b]


def _seams(run: Run) -> Iterator[tuple[int, str]]:
    """Where the run was resumed, and where the weights of a model in training were loaded over (another training may do so)."""
    yield from ((e.step, "jump") for e in run.events_of("resume"))
    anew = [e.step for e in run.events_of("retrained")]
    # weights of something else are a target network's, a teacher's, a copy's
    loads = [e for e in run.events_of("load") if e.data.get("what") == "model" and "digest" in e.data]
    if len({e.step for e in loads}) > _HABIT:
        return  # a method that moves its weights by itself (tasks, averages, tournaments); the same ones each time: WIRE015
    for event in loads:
        if not any(abs(event.step - step) <= 1 for step in anew):
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
