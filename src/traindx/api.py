"""The public verbs in Python: what `traindx.watch`, `traindx.diagnose`, `traindx.check` and `traindx.replay` are made of."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traindx import diagnosis as _diagnosis
from traindx import settings as _settings
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.row import rank
from traindx.errors import NothingReadable, UsageError
from traindx.plain import say
from traindx.record import diary, listing, sources
from traindx.run import Run
from traindx.settings import Settings

if TYPE_CHECKING:
    from traindx.diagnosis.common import Sweep
    from traindx.diagnosis.compare import Comparison


def load(source: Any, *, columns: Mapping[str, str] | None = None) -> list[Run]:
    """Every run found in `source`: a path, `@last`, a list of losses, a dict of lists, a frame, a Trainer, a watch or a Run.

    In a list of losses a NaN is a loss that was not a number, and None one that was not written down.
    """
    if isinstance(source, Run):
        return [source]
    source = _recorded(source)
    if isinstance(source, str | Path) and str(source) != "-" and "://" not in str(source):
        source = listing.spoken(source)
    if isinstance(source, Run):
        return [source]
    runs: list[Run] = importlib.import_module("traindx.importers").read(source, map=columns)
    if isinstance(source, str | Path):
        return [_with_what_lies_beside(r, source, alone=len(runs) == 1) for r in runs]
    return runs


def _with_what_lies_beside(run: Run, source: str | Path, *, alone: bool) -> Run:
    """The run with its diary and the lines of source kept with its record, also where the folder of several was named."""
    recorded = run.kind == "record" and Path(run.source).is_dir()
    beside = {
        "diary": diary.entries(source if alone else run.source) if alone or recorded else [],
        **({"code.source": sources.kept(run.source), **sources.code(run.source)} if recorded else {}),
    }
    found = {key: value for key, value in beside.items() if value}
    return run.with_(facts=found) if found else run


def _recorded(source: Any) -> Any:
    """What a watch, a callback of ours or a Hugging Face Trainer holds; anything else is read as it is."""
    watch = getattr(source, "dx", source)
    if callable(getattr(watch, "run", None)) and hasattr(type(watch), "diagnosis"):
        return watch.run()
    history = getattr(getattr(source, "state", None), "log_history", None)
    return history if isinstance(history, list) else source


def runs(folder: str | Path = "") -> list[Run]:
    """Every run below a folder; by default the records of `traindx run` ($TRAINDX_DIR or ./traindx-runs)."""
    return load(Path(folder or _settings.folder()))


def sweep(*folders: str | Path, by: str | None = None, settings: Settings | None = None) -> Sweep:
    """All runs below some folders side by side, ranked by the metric `by`: what `traindx diagnose FOLDER` prints.

    It prints as a table; `rows` has each run's verdict, settings and metrics, `causes` what the sick ones have in common.
    """
    paths = [Path(f) for f in folders or (_settings.folder(),)]
    if missing := [path for path in paths if not path.exists()]:
        raise NothingReadable(f"{missing[0]}: there is no such file or folder")
    found: Sweep = importlib.import_module("traindx.report.runs").Runs(paths, settings).sweep(by)
    return found


def compare(a: Any, b: Any, *, tolerance: float = 0.0) -> Comparison:
    """What differs between `a` and `b`, each anything `load` takes; several runs in `a` are a band of baselines."""
    before, after = load(a), load(b)
    if not before or len(after) != 1:
        raise UsageError(f"compare takes one or more runs and one run; got {len(before)} and {len(after)}")
    found: Comparison = importlib.import_module("traindx.diagnosis.compare").compare(before, after[0], tolerance=tolerance)
    return found


def diagnose(source: Any, *, columns: Mapping[str, str] | None = None, settings: Settings | None = None) -> Diagnosis:
    """The diagnosis of the run in `source`; of the worst one when there are several."""
    runs = load(source, columns=columns)
    if not runs:
        raise NothingReadable(f"{source!r}: no training run found in it")
    return worst_first([_diagnosis.diagnose(run, settings) for run in runs])[0]


def worst_first(diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    """Diagnoses by severity of their worst alarm, then by verdict, by number of alarms and by name."""
    return sorted(diagnoses, key=lambda d: (*rank(d), d.run.source))


def watch(
    *models_and_optimizers: Any,
    replay: bool = True,
    skip_nonfinite: bool = False,
    capture_batch: bool = False,
    profiler: int = 0,
    alerts: str | Sequence[str] | None = None,
    live: bool | None = None,
    stop_on: str = "",
    dir: str | os.PathLike[str] | None = None,
    budget: float | None = 0.01,
    log_every: int = 0,
    alert_grad_norm: float | None = None,
    name: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Any:
    """Observe a training loop until the block ends or `close()` is called.

    `dir` is where the record goes. `budget` is the share of step time that observing may cost (None: everything every step).
    `log_every=50` prints a line every 50 steps. `facts` states what only you know (`{"rl": True}`). `alert_grad_norm`: a
    line and an event tell when the gradient norm rises above this. `replay`: make the first step that goes non-finite again,
    once, to name the operation behind it, and save a capsule of the state. `capture_batch`: keep raw samples: a few batches
    for the report, the answers to the first samples of every evaluation, and the batch in the capsule.
    `profiler`: profile this many steps once with torch.profiler, and say where the time goes. `skip_nonfinite`: do not
    make updates whose gradients are not finite; the only option that changes what your run computes. `alerts`: one or
    more addresses (a webhook, or anything apprise knows) that get a message for each new finding, once. `live`: say a
    finding on stderr as soon as it is settled. Where these two are absent, the settings and the environment decide.
    `stop_on="critical"`: when an exact critical finding is settled, raise KeyboardInterrupt after an update. A separate
    process reads the record for all three.
    """
    if stop_on not in ("", "critical"):
        raise UsageError(f"stop_on is 'critical' or nothing; not {stop_on!r}")
    chosen = _settings.load(warn=say)
    told = importlib.import_module("traindx.alerts") if alerts or chosen.alerts else None
    addresses = told.addresses_of(alerts, chosen.alerts) if told else []
    chosen.share_records(samples=capture_batch)
    dx = importlib.import_module("traindx.probes.launch.watch").watch(
        *models_and_optimizers,
        dir=dir,
        budget=budget,
        log_every=log_every,
        alert_grad_norm=alert_grad_norm,
        name=name,
        facts=facts,
    )
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
        judging.beside(dx._recorder, dx.name, live=judging.wanted(live, chosen.live), addresses=addresses, stop_on=stop_on)
    return dx


def check(
    task: Any,
    loss_fn: Any = None,
    train: Any = None,
    targets: Any = None,
    *,
    val: Any = None,
    optimizer: Any = None,
    level: str = "usual",
    fresh: bool = False,
) -> Any:
    """The pre-flight on a Task, a factory (`file.py:make_task`), a script, or a model with its loss and its loader or `x, y`.

    `level` is quick (seconds), usual (under two minutes) or full; `fresh` measures the first loss on newly drawn weights.
    """
    options: dict[str, Any] = {"level": level, "fresh": fresh}
    if targets is not None:
        train = (train, targets)
    if isinstance(train, tuple) and all(hasattr(part, "size") and hasattr(part, "dtype") for part in train):
        train = _loader(train)
    if loss_fn is not None or train is not None:
        task = importlib.import_module("traindx.trials.task").Task(task, loss_fn, train, val, optimizer)
    if isinstance(task, str | Path):
        start = importlib.import_module("traindx.capture.start")
        if start.is_script(str(task)):
            return start.check_on(str(task), **options)
        task = importlib.import_module("traindx.trials.target").task_from(str(task))
    return importlib.import_module("traindx.trials.check").check(task, **options)


def _loader(tensors: tuple[Any, ...]) -> Any:
    """The tensors of all samples, inputs and targets, as a loader."""
    data = importlib.import_module("torch.utils.data")
    return data.DataLoader(data.TensorDataset(*tensors), batch_size=32)


def apply(prescription: Any, task: Any) -> list[str]:
    """Apply a prescription to a Task's own optimizer, schedule and model, in place; what was changed, a sentence each.

    The prescription is a dict such as {"lr": 0.1, "clip": 1.0}, a cause, its name, or a diagnosis. Nothing else is touched.
    """
    said: list[str] = importlib.import_module("traindx.trials.prescription").apply_to(prescription, task)
    return said


def replay(
    capsule: str | Path,
    task: Any,
    *,
    fp32: bool = False,
    lr_scale: float | None = None,
    other_batch: int | None = None,
    reproducer: str | Path | None = None,
    seconds: float = 60.0,
) -> dict[str, Any]:
    """Make the step of a capsule again with the model and loss of `task`, and name the first non-finite operation.

    `fp32` leaves autocast off. `lr_scale` makes the update too, with a learning rate times that. `other_batch` takes batch K of
    the task's data. `reproducer` writes the step as a stand-alone script.
    """
    forensics = importlib.import_module("traindx.forensics.replay")
    given = {"fp32": fp32, "lr_scale": lr_scale, "other_batch": other_batch, "reproducer": reproducer, "seconds": seconds}
    made: dict[str, Any] = forensics.replay(capsule, task, **given)
    return made


def __getattr__(name: str) -> Any:
    if name == "Task":
        return importlib.import_module("traindx.trials.task").Task
    raise AttributeError(f"module 'traindx.api' has no attribute '{name}'")
