"""The investigation: walk the tree of the complaint, run the experiment that tells most per second, until one cause is left.

Every experiment confirms or refutes hypotheses of the tree; the one tried next is the one with the most expected information per
second of the budget. When a cause is settled and its cure can be tried, the last experiment is the cure itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traindx.diagnosis import Diagnosis, examine
from traindx.diagnosis.trees import (
    Branch,
    Presented,
    State,
    Tree,
    Walked,
    information,
    named,
    presenting,
    settled,
    shares,
    walk,
)
from traindx.diagnosis.verdict import VERDICTS
from traindx.errors import TwinLeak, UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, catalogue, silent
from traindx.trials.task import Task

FROM_START = ("DX-A", "DX-C", "DX-H", "DX-I")  # complaints that begin with the first step: tried on the initial weights
STEP_S = 0.05  # seconds a step is thought to take until one was timed
LIKELY = 0.5  # a cause that alarms of the record make more likely than not outweighs symptoms and what experiments only hint at
# Experiments in which "pass" means that the suspected thing is there; in all others "fail" does.
CURES = ("lr-tenth", "clip", "regularisers-off", "fix", "anneal")


@dataclass(frozen=True)
class Tried:
    """One experiment of the investigation."""

    trial: str
    result: str
    reason: str
    seconds: float
    steps: int


@dataclass(frozen=True)
class Investigation:
    """How every hypothesis stands in the end, what was tried, and the verdict."""

    complaint: str
    code: str  # of the tree
    hypotheses: tuple[Walked, ...]
    tried: tuple[Tried, ...]
    verdict: str
    summary: str
    seconds: float
    proof: Tried | None = None  # the cure on a fork
    left: tuple[str, ...] = field(default=())  # hypotheses still open
    reason: str = ""  # why this complaint


def investigate(
    task_at: Callable[[bool], Task],
    diagnosis: Diagnosis,
    *,
    minutes: float = 20.0,
    complaint: str = "",
    progress: Progress = silent,
) -> Investigation:
    """Investigate a run's complaint; `task_at(now)` gives the task with its weights of now, or as they were at the start."""
    began = time.monotonic()
    run, outcomes = diagnosis.run, diagnosis.outcomes
    shown = Presented(named(complaint), "as you asked") if complaint else presenting(run, outcomes)
    if shown is None:
        return Investigation("nothing complains", "", (), (), diagnosis.verdict, diagnosis.summary, time.monotonic() - began)
    tree = shown.tree
    hypotheses = list(walk(tree, run, outcomes))
    task = task_at(tree.code not in FROM_START)
    _belongs(task, run)
    tried: list[Tried] = []
    pace = STEP_S
    ends = began + 60 * minutes
    while (trial := _next(hypotheses, tried, pace, ends - time.monotonic())) is not None:
        progress(len(tried), len(tried) + 1, f"{tree.code}: {trial}")
        done, result = _try(task, trial)
        tried.append(done)
        if done.steps:
            pace = max(done.seconds / done.steps, 1e-4)
        run = run.with_(facts=result.run.facts)
        hypotheses = _after(tree, hypotheses, done, result, run, task)
    proof = _proof(task, diagnosis, hypotheses, ends, progress)
    return replace(_closed(tree, hypotheses, tried, diagnosis, time.monotonic() - began, proof), reason=shown.why)


# -- choosing


def _belongs(task: Task, run: Run) -> None:
    """Refuse a script whose model is not the one of the run: its experiments would say nothing about that run."""
    told = run.fact("model.param_shapes")
    if not isinstance(told, dict) or not told:
        return
    here = sorted(tuple(p.shape) for p in task.model.parameters())
    there = sorted(tuple(shape) for shape in told.values() if isinstance(shape, list))
    if here != there:
        a, b = (sum(math.prod(shape) for shape in shapes) for shapes in (here, there))
        raise UsageError(
            f"this script does not belong to the run: its model has {len(here)} parameters with {a:,} numbers, the run's had "
            f"{len(there)} with {b:,}; give the script that made the run, with the same arguments, or leave out the run"
        )


def _next(hypotheses: Sequence[Walked], tried: Sequence[Tried], pace: float, left_s: float) -> str | None:
    """The experiment with the most expected information per second that fits the time left; None when all is settled."""
    if settled(hypotheses) is not None:
        return None
    kinds = catalogue()
    gain = {name: share for name, share in shares(hypotheses, {t.trial for t in tried}).items() if name in kinds}
    costs = {name: max(kinds[name].steps * pace, 0.05) for name in gain}
    fitting = [name for name in gain if costs[name] <= left_s]
    return max(fitting, key=lambda n: information(gain[n]) / costs[n], default=None)


def _try(task: Task, trial: str) -> tuple[Tried, Result]:
    began = time.monotonic()
    limits: dict[str, Any] = {"change": {"lr": "peak", "schedule": "relaid"}} if trial == "fix" else {}
    try:
        result: Result = catalogue()[trial].run(task, **limits)
    except TwinLeak:
        raise
    except Exception as error:  # an experiment that cannot be made on this task leaves its question open
        from traindx.trials.faults import located

        told = str(error) if isinstance(error, UsageError) else located(error)
        result = Result(trial, "refused", {}, told)
    return Tried(trial, result.result, result.reason, time.monotonic() - began, result.steps), result


# -- reading an experiment


def _after(tree: Tree, before: Sequence[Walked], done: Tried, found: Result, run: Run, task: Task) -> list[Walked]:
    """The hypotheses after an experiment: those it speaks of by its result, the rest by the rules that read its facts."""
    again = walk(tree, run, examine(run)) if found.run.facts else before
    out = []
    for old, new in zip(before, again, strict=True):
        now = new if new.state is State.CONFIRMED and old.state is not State.CONFIRMED else old
        if old.branch.trial == done.trial and now.state is not State.CONFIRMED:
            state = _reading(old.branch, done, found.answer, task)
            now = replace(old, state=state, why=f"{done.trial}: {done.reason}") if state is not None else now
        out.append(now)
    return out


def _reading(branch: Branch, done: Tried, answer: Mapping[str, Any], task: Task) -> State | None:
    """What an experiment's result says about the hypothesis it was made for; None when nothing."""
    if done.result == "refused":
        return None
    if done.trial == "anneal":
        hit = {"pass": "noise floor", "fail": "generalisation"}.get(done.result)
        if hit is None:  # decaying brings nothing: no noise floor, and nothing about validation
            return State.REFUTED if "noise floor" in branch.hypothesis else None
        return State.CONFIRMED if hit in branch.hypothesis else State.REFUTED
    if done.trial == "sharpness":
        return State.CONFIRMED if answer.get("saddle") else State.REFUTED
    if done.trial == "lr-range":
        now = float(task.optimizer.param_groups[0]["lr"]) if task.optimizer is not None else math.inf
        return State.CONFIRMED if float(answer.get("won", answer.get("start_lr", 0.0))) >= 5 * now else State.REFUTED
    if done.trial == "overfit" and "allow no better" in branch.hypothesis:
        return (
            State.LIKELY if done.result == "pass" else None
        )  # it can learn, so data or size are the limit, if nothing else is
    if done.result == "undecided":
        return None
    there = done.result == ("pass" if done.trial in CURES else "fail")
    return State.CONFIRMED if there else State.REFUTED


# -- the end


def _proof(task: Task, diagnosis: Diagnosis, hypotheses: Sequence[Walked], ends: float, progress: Progress) -> Tried | None:
    """The cure of the most probable cause that what is confirmed speaks for, tried on a fork, when there is time."""
    sure = settled(hypotheses)
    if sure is None or (sure.branch.trial in CURES and sure.why.startswith(f"{sure.branch.trial}: ")):
        return None  # the experiment that settled it was a cure
    codes, trial = set(sure.branch.codes), sure.branch.trial if sure.why.startswith(f"{sure.branch.trial}: ") else ""
    told = [s.cause for s in diagnosis.likely if s.cause.change and codes & {c.partition(":")[0] for c in s.cause.likely}]
    cause = next((c for c in told if c.settle == trial or not trial), None)
    if cause is None or time.monotonic() > ends - 10:
        return None
    progress(0, 1, f"the cure of {cause.name}")
    began = time.monotonic()
    try:
        done = catalogue()["fix"].run(task, cause=cause.name, horizons=(50, 100))
    except UsageError as why:
        return Tried("fix", "refused", str(why), time.monotonic() - began, 0)
    return Tried("fix", done.result, done.reason, time.monotonic() - began, done.steps)


def _closed(
    tree: Tree, hypotheses: Sequence[Walked], tried: Sequence[Tried], diagnosis: Diagnosis, seconds: float, proof: Tried | None
) -> Investigation:
    sure = settled(hypotheses, diagnosis.likely[0].supports if diagnosis.likely else ())
    hinted = next((w for w in hypotheses if w.state is State.LIKELY), None)
    left = tuple(w.branch.hypothesis for w in hypotheses if w.state in (State.OPEN, State.LIKELY))
    last = left[0] if len(left) == 1 else None
    tested = sure is not None and any(sure.why.startswith(f"{t.trial}: ") for t in tried)
    strong = diagnosis.alarmed and bool(diagnosis.likely) and diagnosis.likely[0].probability >= LIKELY
    if sure is not None and (tested or not strong or sure.branch.verdict == diagnosis.verdict):
        verdict, said = sure.branch.verdict, f"{sure.branch.hypothesis} ({sure.why})"
    elif strong:
        verdict, said = diagnosis.verdict, f"no experiment contradicts the record: {diagnosis.summary.rstrip('.')}"
    elif hinted is not None:
        verdict, said = hinted.branch.verdict, f"probably: {hinted.branch.hypothesis} ({hinted.why})"
    elif last is not None:
        only = next(w for w in hypotheses if w.branch.hypothesis == last)
        verdict, said = only.branch.verdict, f"by exclusion: {last}"
    elif left:
        verdict, said = "cannot-tell", f"{len(left)} hypotheses are left: {'; '.join(left[:3])}"
    else:
        verdict, said = diagnosis.verdict, diagnosis.summary
    word = VERDICTS.get(verdict, "")
    summary = f"{tree.complaint}: {said}. {word}".strip()
    return Investigation(tree.complaint, tree.code, tuple(hypotheses), tuple(tried), verdict, summary, seconds, proof, left)
