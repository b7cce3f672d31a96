"""A folder of runs: which files are logs, which belong together, and which tell the same story twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx import record
from traindx.errors import NothingReadable, TraindxError
from traindx.importers import aliases, formats, lexicon, mlflow, settings_file, smdebug, tensorboard, trainer_state
from traindx.importers.assemble import runs_of
from traindx.importers.source import Source
from traindx.importers.table import Log, Options, in_time_order
from traindx.run import Run, Series

MOST_ENTRIES = 100_000
MOST_DEPTH = 40
_SUFFIXES = (
    ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".txt", ".out", ".wandb", ".db", ".sqlite", ".sqlite3", ".parquet",
)  # fmt: skip
_NOT_FOLDERS = {
    ".git",
    "__pycache__",
    "node_modules",
    ".venv",
    "venv",
    "site-packages",
    ".cache",
    ".ipynb_checkpoints",
    "artifacts",
}
_NOT_FILES = (
    "config.json", "tokenizer", "vocab", "merges.txt", "special_tokens", "added_tokens", "generation_config",
    "requirements", "readme", "license", "package", "preprocessor_config", "model.safetensors.index",
    "pytorch_model.bin.index", "all_results.json", "train_results.json", "eval_results.json", "wandb-metadata.json",
    "labels.txt", "classes.txt", "adapter_config", "copying", "notice", "tsconfig", "modules.json",
    "debug-internal.log", "debug-core.log", "debug.log", "training_args",
)  # fmt: skip

_SETTINGS = (
    "config.json",
    "config.yaml",
    "hparams.yaml",
    "hparams.json",
    "args.json",
    "args.yaml",
    "params.json",
    "params.yaml",
)


@dataclass
class Walk:
    """What a walk through a folder came upon."""

    logs: list[Log] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)  # traindx's own records
    events: dict[Path, list[Source]] = field(default_factory=dict)  # event files by folder
    states: list[Log] = field(default_factory=list)  # trainer states of all checkpoints
    entries: int = 0
    links: int = 0
    closed: list[str] = field(default_factory=list)  # folders that could not be entered
    deep: int = 0
    full: bool = False
    looked: int = 0  # files that were opened
    failures: list[str] = field(default_factory=list)


def read(folder: Path, options: Options) -> list[Run]:
    """Every run below a folder, in the order of their paths."""
    walk = Walk()
    _enter(folder, walk, options, 0)
    walk.logs += trainer_state.merge(walk.states)
    walk.logs += _event_logs(walk, options)
    runs = list(walk.runs)
    for log in walk.logs:
        runs += runs_of(log, options)
    if not runs:
        raise NothingReadable(_nothing(folder, walk))
    runs = _once(sorted(runs, key=lambda r: _natural(r.source)))
    notes = _told(walk)
    return [runs[0].with_(notes=notes), *runs[1:]] if notes else runs


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key that puts run 2 before run 10."""
    parts = "".join(c if c.isdigit() else f" {c} " if not c.isdigit() else c for c in name).split()
    return [(0, int(p), "") if p.isdecimal() and len(p) < 19 else (1, 0, p) for p in parts]


def _nothing(folder: Path, walk: Walk) -> str:
    looked = f"; {walk.looked} files were looked into" if walk.looked else ""
    first = f"; the first said: {walk.failures[0]}" if walk.failures else ""
    shut = f"; {len(walk.closed)} folders could not be entered" if walk.closed else ""
    return (
        f"{folder}: no training run found below it (looked for traindx records, TensorBoard, W&B, MLflow, trackio, "
        f"Hugging Face, Lightning, Keras, YOLO, CSV, JSON lines and text logs){looked}{shut}{first}"
    )


def _told(walk: Walk) -> list[str]:
    out = []
    if walk.closed:
        out.append(f"{len(walk.closed)} folders could not be entered and were skipped, the first {walk.closed[0]}")
    if walk.full:
        out.append(f"the folder holds more than {MOST_ENTRIES} entries; the rest was skipped")
    if walk.deep:
        out.append(f"{walk.deep} folders more than {MOST_DEPTH} levels down were skipped")
    if walk.links:
        out.append(f"{walk.links} links were not followed")
    return out


# -- the walk


def _enter(folder: Path, walk: Walk, options: Options, depth: int) -> None:
    if depth > MOST_DEPTH:
        walk.deep += 1
        return
    files, folders = _listed(folder, walk)
    special = _special({p.name for p in files}, {p.name for p in folders})
    if special is not None:
        _try(walk, lambda: walk.logs.extend(special(folder)))
        return
    if (folders or any(p.name == "run.json" for p in files)) and record.is_record(folder):
        _try(walk, lambda: walk.runs.append(record.read(folder)))
        return
    inner = _wandb(folder, files, walk, options)
    if not inner:
        for path in files:
            _take(path, walk, options)
    for sub in folders:
        if not (inner and sub.name in ("files", "logs", "tmp")):
            _enter(sub, walk, options, depth + 1)


def _special(files: set[str], folders: set[str]) -> Callable[[Path], list[Log]] | None:
    """The reader of folders that are one run as a whole."""
    if mlflow.is_run(files, folders):
        return mlflow.read_folder
    return smdebug.read_folder if smdebug.is_run(files, folders) else None


def _listed(folder: Path, walk: Walk) -> tuple[list[Path], list[Path]]:
    files, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                walk.entries += 1
                if walk.entries > MOST_ENTRIES:
                    walk.full = True
                    break
                if entry.is_symlink():
                    walk.links += 1
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in _NOT_FOLDERS:
                        folders.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    files.append(Path(entry.path))
    except OSError:
        walk.closed.append(str(folder))
    return sorted(files), sorted(folders)


def _wandb(folder: Path, files: list[Path], walk: Walk, options: Options) -> bool:
    """Whether this is the folder of a W&B run whose own file could be read; then its other files say nothing new."""
    binaries = [f for f in files if f.suffix == ".wandb"]
    if not binaries:
        return False
    before = len(walk.logs)
    for path in binaries:
        _take(path, walk, options)
    return len(walk.logs) > before


def _take(path: Path, walk: Walk, options: Options) -> None:
    if "tfevents" in path.name:
        walk.events.setdefault(path.parent, []).append(Source.of(path))
        return
    if not _plausible(path):
        return
    source = Source.of(path)
    walk.looked += 1

    def look() -> None:
        for log in formats.read(source, options, in_folder=True):
            log.hparams = log.hparams or _beside(path)
            (walk.states if log.kind == "trainer_state" else walk.logs).append(log)

    _try(walk, look)


def _beside(path: Path) -> dict[str, Any]:
    """The settings in the folder of a log, or under its own name: exp1.csv has exp1.json or exp1.yaml."""
    for name in (f"{path.stem}.yaml", f"{path.stem}.config.json", *_SETTINGS):
        if path.with_name(name).is_file() and (found := settings_file.read(Source.of(path.with_name(name)))):
            return found
    return {}


def _plausible(path: Path) -> bool:
    name = path.name.lower()
    if name.startswith((".", *_NOT_FILES)):
        return False
    if name.endswith(_SUFFIXES):
        return True
    return "." not in name and ("log" in name or name in ("stdout", "stderr"))


def _try(walk: Walk, act: Callable[[], object]) -> None:
    """Do it; a file that cannot be read costs itself only."""
    try:
        act()
    except TraindxError as why:
        if len(walk.failures) < 100:
            walk.failures.append(str(why))


# -- event files


def _event_logs(walk: Walk, options: Options) -> Iterator[Log]:
    """One log for each run of TensorBoard: folders that only part the splits of one run are joined."""
    done: set[Path] = set()
    for folder in sorted(walk.events):
        if folder in done:
            continue
        group = _splits(folder, walk.events)
        done.update(group)
        log = _joined(group, walk) if len(group) > 1 else _single(folder, walk)
        if log is not None and not _only_summary(log, walk, folder):
            yield log


def _splits(folder: Path, events: dict[Path, list[Source]]) -> list[Path]:
    """The folders beside this one that hold the other splits of the same run; itself alone when there are none."""
    parts = aliases.words(folder.name)
    if not aliases.split_of(parts):
        return [folder]
    rest = _without_split(parts)
    group = [f for f in events if f.parent == folder.parent and aliases.split_of(aliases.words(f.name))]
    group = [f for f in group if _without_split(aliases.words(f.name)) == rest or not rest]
    told = {aliases.split_of(aliases.words(f.name)) for f in group}
    return sorted(group) if "train" in told and len(told) > 1 else [folder]


def _without_split(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p for p in parts if not any(p in names for names in lexicon.SPLITS.values()))


def _single(folder: Path, walk: Walk) -> Log | None:
    sources = walk.events[folder]
    found: list[Log] = []
    full = [s for s in sources if s.path is not None and _size(s.path) > tensorboard.SHELL] or sources
    _try(walk, lambda: found.append(tensorboard.read_many(full, str(folder))))
    if not found:
        return None
    log = found[0]
    log.split = _exact_split(folder.name)
    beside = settings_file.read(Source.of(folder / "hparams.yaml")) if (folder / "hparams.yaml").is_file() else {}
    log.hparams = {**beside, **log.hparams}
    return log


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _exact_split(name: str) -> str:
    parts = aliases.words(name)
    return aliases.split_of(parts) if len(parts) == 1 else ""


def _joined(group: list[Path], walk: Walk) -> Log | None:
    """The splits of a run as one log; tags carry the name of their folder."""
    out = Log("tensorboard", str(group[0].parent), shared=False)
    for folder in group:
        log = _single(folder, walk)
        if log is None:
            continue
        out.tracks.update({f"{folder.name}/{name}": track for name, track in log.tracks.items()})
        for signal, tracks in log.matrices.items():
            out.matrices.setdefault(signal, {}).update(tracks)
        out.hparams.update(log.hparams)
        out.notes += log.notes
    if not out.tracks:
        return None
    out.notes.append(f"the folders {', '.join(f.name for f in group[:6])} hold the splits of one run and were joined")
    in_time_order(out)
    return out


def _only_summary(log: Log, walk: Walk, folder: Path) -> bool:
    """One closing number per tag below a folder with curves of its own, as add_hparams leaves them: not a run."""
    single = all(len(t) <= 1 for t in log.tracks.values()) and not log.matrices
    return single and any(other != folder and other in folder.parents for other in walk.events)


# -- the same run twice


def _once(runs: list[Run]) -> list[Run]:
    """Without runs that another format of the same folder tells as well; the fuller one is kept and says so."""
    kept: list[Run] = []
    by_curve: dict[tuple[object, ...], list[int]] = {}
    for run in runs:
        mark = _mark(run)
        twin = next((i for i in by_curve.get(mark, []) if kept[i].kind != run.kind), None) if mark else None
        if twin is None:
            by_curve.setdefault(mark, []).append(len(kept))
            kept.append(run)
            continue
        full, other = (kept[twin], run) if len(kept[twin].signals) >= len(run.signals) else (run, kept[twin])
        kept[twin] = full.with_(notes=[f"{other.source} holds the same run in another format and was left out"])
    return kept


def _mark(run: Run) -> tuple[object, ...]:
    """What tells a curve: how long, how it begins and how it ends, to four digits."""
    for name in ("loss/train", "loss/val"):
        series = run.signals.get(name)
        if isinstance(series, Series) and len(series) >= 3:
            ends = [float(f"{v:.3e}") if v == v else None for v in (series.values[0], series.values[1], series.values[-1])]
            return name, len(series), *ends
    return ()
