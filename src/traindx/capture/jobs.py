"""What is done with a captured script: one experiment, or the whole pre-flight."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from traindx.errors import UsageError
from traindx.run import Matrix, Run, Series
from traindx.trial import Progress, Result, catalogue
from traindx.trials.check import Checked, check
from traindx.trials.recording import kept, recording
from traindx.trials.task import Task, stated


def work(
    asked: Mapping[str, Any],
    task: Task | None,
    why: str,
    run: Run,
    progress: Progress,
    say: Callable[[str], None] = lambda text: None,
    agreed: Callable[[str, float], bool] = lambda text, seconds: True,
) -> dict[str, Any]:
    """The answer to a job, as plain data."""
    if asked["what"] == "check":
        found = check(task, level=asked["level"], fresh=asked["fresh"], progress=progress, seen=run, blind=why)
        return {"checked": checked_as_data(found)}
    name, limits = asked["trial"], dict(asked["limits"])
    if task is None:
        return {"result": result_as_data(blind(name, why))}
    said, seconds = stated(catalogue()[name], task, limits)
    say(said)
    if not agreed(said, seconds):
        return {"declined": True}
    with recording(Path(asked["record"]) if asked.get("record") else None) as records:
        result = catalogue()[name].run(task, progress, **limits)
    return {"result": result_as_data(dataclasses.replace(result, record=kept(result, records)))}


def investigation(
    asked: Mapping[str, Any], task_at: Callable[[bool], Task] | None, why: str, seen: Run, progress: Progress
) -> dict[str, Any]:
    """The answer to `diagnose --investigate`: on the record that was named, or on what was just seen of the script."""
    from traindx import api
    from traindx.diagnosis import diagnose
    from traindx.trials.investigate import investigate

    if task_at is None:
        raise UsageError(f"the script's steps cannot be made again, so nothing can be tried: {why}")
    run = api.load(Path(asked["path"]))[0] if asked.get("path") else seen
    done = investigate(
        task_at, diagnose(run), minutes=asked["minutes"], complaint=asked.get("complaint", ""), progress=progress
    )
    return {"investigation": investigation_as_data(done)}


def investigation_as_data(done: Any) -> dict[str, Any]:
    """An investigation as plain data, as `--format json` prints it."""
    rows = [{"hypothesis": w.branch.hypothesis, "state": w.state.value, "why": w.why} for w in done.hypotheses]
    return {
        "schema": "traindx.investigation/1",
        "complaint": done.complaint,
        "tree": done.code,
        "reason": done.reason,
        "hypotheses": rows,
        "trials": [dataclasses.asdict(t) for t in done.tried],
        "proof": dataclasses.asdict(done.proof) if done.proof else None,
        "verdict": done.verdict,
        "summary": done.summary,
        "left": list(done.left),
        "seconds": done.seconds,
    }


ADVICE = "give a factory that returns a traindx.Task (train.py:make_task) and it can"


def blind(name: str, why: str) -> Result:
    """The trial cannot look into this script."""
    return Result(name, "refused", {"blind": True}, f"blind: {why}; {ADVICE}")


def unseen(name: str, why: str, others: tuple[str, ...]) -> Result:
    """The trial needs a loss that can be called, and there is none; `others` can do without."""
    said = f"blind: {why}. {name} must call the loss; {', '.join(others)} drive the script's own loop instead. Or {ADVICE}"
    return Result(name, "refused", {"blind": True}, said)


def result_as_data(result: Result) -> dict[str, Any]:
    """A result that can travel between processes."""
    told = {f.name: getattr(result, f.name) for f in dataclasses.fields(Result) if f.name != "run"}
    return {**told, "run": run_as_data(result.run)}


def result_from(data: Mapping[str, Any]) -> Result:
    """The result behind what `result_as_data` gave."""
    return Result(**{**data, "run": run_from(data["run"])})


def run_as_data(run: Run) -> dict[str, Any]:
    """A trial's run: series and matrices as lists."""
    signals: dict[str, Any] = {}
    for name, s in run.signals.items():
        names = list(s.names) if isinstance(s, Matrix) else None
        signals[name] = {"steps": s.steps.tolist(), "names": names, "values": s.values.tolist()}
    return {"signals": signals, "facts": dict(run.facts), "kind": run.kind}


def run_from(data: Mapping[str, Any]) -> Run:
    """The run behind what `run_as_data` gave."""
    signals: dict[str, Series | Matrix] = {}
    for name, s in data["signals"].items():
        values = np.array(_numbers(s["values"]), dtype=np.float64)
        if s["names"] is None:
            signals[name] = Series(np.array(s["steps"], np.int64), values)
        else:
            signals[name] = Matrix(np.array(s["steps"], np.int64), tuple(s["names"]), values.reshape(-1, len(s["names"])))
    return Run(signals, dict(data["facts"]), kind=data["kind"])


def _numbers(values: Any) -> Any:
    """Lists of numbers in which 'nan', 'inf' and '-inf' stand for themselves."""
    return [_numbers(v) for v in values] if isinstance(values, list) else float(values)


def checked_as_data(checked: Checked) -> dict[str, Any]:
    """The answered checklist as plain data."""
    return {
        "items": [dataclasses.asdict(i) for i in checked.items],
        "seconds": checked.seconds,
        "modules": list(checked.modules),
        "sheet": checked.sheet,
    }
