"""The public verbs in Python: what `traindx.watch`, `traindx.diagnose`, `traindx.check` and `traindx.replay` are made of."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from traindx import diagnosis as _diagnosis
from traindx import importers
from traindx.diagnosis import Diagnosis
from traindx.diagnosis import compare as _compare
from traindx.diagnosis.compare import Comparison
from traindx.errors import NothingReadable, UsageError
from traindx.finding import Severity
from traindx.record import diary, listing, sources
from traindx.run import Run
from traindx.settings import Settings


def load(source: Any, *, columns: Mapping[str, str] | None = None) -> list[Run]:
    """Every run found in `source`: a path, `@last`, a list of losses, a dict of lists, a frame, a Trainer, a watch or a Run."""
    if isinstance(source, Run):
        return [source]
    source = _spoken(_recorded(source))
    if isinstance(source, Run):
        return [source]
    runs = importers.read(source, map=columns)
    if isinstance(source, str | Path) and len(runs) == 1:
        beside = {"diary": diary.entries(source), "code.source": sources.kept(source) if runs[0].kind == "record" else {}}
        if found := {key: value for key, value in beside.items() if value}:
            return [runs[0].with_(facts=found)]
    return runs


def _recorded(source: Any) -> Any:
    """What a watch, a callback of ours or a Hugging Face Trainer holds; anything else is read as it is."""
    watch = getattr(source, "dx", source)
    if callable(getattr(watch, "run", None)) and hasattr(type(watch), "diagnosis"):
        return watch.run()
    history = getattr(getattr(source, "state", None), "log_history", None)
    return history if isinstance(history, list) else source


def _spoken(source: Any) -> Any:
    """The record that `@last`, a name or a prefix means, where there is no such path."""
    text = str(source) if isinstance(source, str | Path) else ""
    if text.startswith("@") and not Path(text).exists():
        return listing.named(text)
    return source


def runs(folder: str | Path = "") -> list[Run]:
    """Every run below a folder; by default the records of `traindx run` ($TRAINDX_DIR or ./traindx-runs)."""
    return load(Path(folder or os.environ.get("TRAINDX_DIR") or "traindx-runs"))


def compare(a: Any, b: Any, *, tolerance: float = 0.0) -> Comparison:
    """What differs between `a` and `b`, each anything `load` takes; several runs in `a` are a band of baselines."""
    before, after = load(a), load(b)
    if not before or len(after) != 1:
        raise UsageError(f"compare takes one or more runs and one run; got {len(before)} and {len(after)}")
    return _compare.compare(before, after[0], tolerance=tolerance)


def diagnose(source: Any, *, columns: Mapping[str, str] | None = None, settings: Settings | None = None) -> Diagnosis:
    """The diagnosis of the run in `source`; of the worst one when there are several."""
    runs = load(source, columns=columns)
    if not runs:
        raise NothingReadable(f"{source!r}: no training run found in it")
    return worst_first([_diagnosis.diagnose(run, settings) for run in runs])[0]


def worst_first(diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    """Diagnoses by severity of their worst alarm, then by verdict, by number of alarms and by name."""
    order = ("restart", "fix-and-resume", "fix-evaluation", "stop-keep-best", "cannot-tell", "wait", "healthy")

    def key(d: Diagnosis) -> tuple[int, int, int, str]:
        worst = 2 - list(Severity).index(d.gravity or Severity.INFO)
        verdict = order.index(d.verdict) if d.verdict in order else 0
        return worst, verdict, -sum(f.severity.value != "info" for f in d.findings), d.run.source

    return sorted(diagnoses, key=key)


def watch(
    *models_and_optimizers: Any,
    replay: bool = True,
    skip_nonfinite: bool = False,
    capture_batch: bool = False,
    profiler: int = 0,
    alerts: str | Sequence[str] | None = None,
    live: bool | None = None,
    stop_on: str = "",
    **options: Any,
) -> Any:
    """Observe a training loop; see `traindx.probes.watch`. Loaded by name because it needs torch.

    `replay`: make the first step that goes non-finite again, once, to name the operation behind it, and save a capsule of the
    state. `capture_batch`: keep raw samples: a few batches for the report, the answers to the first samples of every
    evaluation, and the batch in the capsule. `profiler`: profile this many steps once with torch.profiler, and say
    where the time goes. `skip_nonfinite`: do not make updates whose gradients are not finite; the only option that
    changes what your run computes. `alerts`: one or more addresses (a webhook, or anything apprise knows) that get a
    message for each new finding, once; $TRAINDX_ALERT if absent. `live`: say a finding on stderr as soon as it is settled
    ($TRAINDX_LIVE if absent, else yes). `stop_on="critical"`: when an exact critical finding is settled, raise
    KeyboardInterrupt after an update. A separate process reads the record for all three.
    """
    if stop_on not in ("", "critical"):
        raise UsageError(f"stop_on is 'critical' or nothing; not {stop_on!r}")
    told = importlib.import_module("traindx.alerts") if alerts or os.environ.get("TRAINDX_ALERT") else None
    addresses = told.addresses_of(alerts) if told else []
    dx = importlib.import_module("traindx.probes.watch").watch(*models_and_optimizers, **options)
    if dx._recorder is not None and profiler:
        dx._recorder.scene.facts["perf.window"] = int(profiler)
    if dx._recorder is not None and capture_batch:
        dx._recorder.scene.facts["data.captured"] = True
    if dx._recorder is not None and (replay or skip_nonfinite):
        forensics = importlib.import_module("traindx.forensics.arm")
        if replay:
            forensics.arm(dx._recorder, capture_batch=capture_batch)
        if skip_nonfinite:
            forensics.guard(dx._recorder)
    if dx._recorder is not None:
        judging = importlib.import_module("traindx.live.start")
        judging.beside(dx._recorder, dx.name, live=judging.wanted(live), addresses=addresses, stop_on=stop_on)
    return dx


def check(
    task: Any,
    loss_fn: Any = None,
    train: Any = None,
    *,
    val: Any = None,
    optimizer: Any = None,
    level: str = "usual",
    fresh: bool = False,
) -> Any:
    """The pre-flight on a Task, a factory (`file.py:make_task`), a script, or a model with its loss and its loader.

    `level` is quick (seconds), usual (under two minutes) or full; `fresh` measures the first loss on newly drawn weights.
    """
    options: dict[str, Any] = {"level": level, "fresh": fresh}
    if loss_fn is not None or train is not None:
        task = importlib.import_module("traindx.trials.task").Task(task, loss_fn, train, val, optimizer)
    if isinstance(task, str | Path):
        start = importlib.import_module("traindx.capture.start")
        if start.is_script(str(task)):
            return start.check_on(str(task), **options)
        task = importlib.import_module("traindx.trials.target").task_from(str(task))
    return importlib.import_module("traindx.trials.check").check(task, **options)


def apply(prescription: Any, task: Any) -> list[str]:
    """Apply a prescription to a Task's own optimizer, schedule and model, in place; what was changed, a sentence each.

    The prescription is a dict such as {"lr": 0.1, "clip": 1.0}, a cause, its name, or a diagnosis. Nothing else is touched.
    """
    said: list[str] = importlib.import_module("traindx.trials.prescription").apply_to(prescription, task)
    return said


def replay(capsule: str | Path, **options: Any) -> Any:
    """Re-execute the step a capsule holds and name the first non-finite operation; see `traindx.forensics.replay`."""
    return importlib.import_module("traindx.forensics.replay").replay(capsule, **options)


def __getattr__(name: str) -> Any:
    if name == "Task":
        return importlib.import_module("traindx.trials.task").Task
    raise AttributeError(f"module 'traindx.api' has no attribute '{name}'")
