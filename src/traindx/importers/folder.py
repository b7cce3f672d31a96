"""A folder of runs: which files are logs, which belong together, and which tell the same story twice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from traindx import record
from traindx.errors import NothingReadable, TraindxError
from traindx.importers import aliases, formats, lexicon, mlflow, settings_file, smdebug, tensorboard, trainer_state
from traindx.importers.assemble import runs_of
from traindx.importers.source import Source
from traindx.importers.table import Log, Options, in_time_order
from traindx.record import bundle
from traindx.run import Run, Series

T = TypeVar("T")
Told = tuple[str, str, int]  # kind, source, number of signals
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

_SETTINGS = re.compile(
    r"(?:(.+)[._-])?(?:config|cfg|hparams|args|params|settings|options|opt|flags|hyperparameters)\.(?:json|ya?ml)"
)
_INNER = {"logs", "log", "metrics", "results", "tb", "tensorboard", "tb_logs", "csv", "history", "events", "output", "runs"}


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
    runs = [run for part in _parts(folder, walk, 0) for run in _of(part, walk, options)]
    if not runs:
        raise NothingReadable(_nothing(folder, walk))
    runs = once(sorted(runs, key=lambda r: natural(r.source)), mark, lambda r: (r.kind, r.source, len(r.signals)), _told_twice)
    notes = _told(walk)
    return [runs[0].with_(notes=notes), *runs[1:]] if notes else runs


def parts(path: Path) -> tuple[list[Path], list[str]]:
    """The files and folders below a path that can be read one by one, and what was left out."""
    walk = Walk()
    found = list(_parts(path, walk, 0)) if path.is_dir() else [path]
    return found, _told(walk)


def part(path: Path) -> list[Run]:
    """The runs of one of `parts`; none where it is no log. What cannot be read is an error."""
    walk = Walk()
    runs = _of(path, walk, Options())
    if not runs and walk.failures:
        raise NothingReadable(walk.failures[0])
    return runs


def _of(path: Path, walk: Walk, options: Options) -> list[Run]:
    inner = Walk()
    if bundle.is_bundle(path):
        _try(inner, lambda: inner.runs.append(bundle.read(path)))
    elif path.is_dir():
        _enter(path, inner, options, 0)
    else:
        _take(path, inner, options)
    inner.logs += trainer_state.merge(inner.states)
    inner.logs += _event_logs(inner, options)
    walk.looked += inner.looked
    walk.closed += inner.closed
    walk.failures += inner.failures
    return [*inner.runs, *(run for log in inner.logs for run in runs_of(log, options))]


def natural(name: str) -> list[tuple[int, int, str]]:
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


def _parts(folder: Path, walk: Walk, depth: int) -> Iterator[Path]:
    """What can be read by itself: a folder whose files belong together is one part, else each of its logs is."""
    if depth > MOST_DEPTH:
        walk.deep += 1
        return
    files, folders = _listed(folder, walk)
    if _together(folder, files, folders):
        yield folder
        return
    yield from (p for p in files if _plausible(p) or bundle.is_bundle(p))
    for sub in folders:
        yield from _parts(sub, walk, depth + 1)


def _together(folder: Path, files: list[Path], folders: list[Path]) -> bool:
    names, below = {p.name for p in files}, {p.name for p in folders}
    if _special(names, below) or any(n.endswith(".wandb") or "tfevents" in n or "trainer_state" in n for n in names):
        return True
    if any(n.startswith("checkpoint-") or aliases.split_of(aliases.words(n)) for n in below):
        return True  # the states of one training, or the splits of one run
    return (bool(folders) or "run.json" in names) and record.is_record(folder)


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
            log.hparams = log.hparams or beside(path, log.notes)
            (walk.states if log.kind == "trainer_state" else walk.logs).append(log)

    _try(walk, look)


def beside(path: Path, notes: list[str]) -> dict[str, Any]:
    """All settings that lie next to a log; of the same name the nearest counts."""
    found: dict[str, Any] = {}
    for file in files_beside(path):
        found = {**settings_file.read(Source.of(file), notes), **found}
    return found


def files_beside(path: Path) -> list[Path]:
    """Files of settings that belong to a log: in its folder, where Hydra puts them, or above a folder of logs only."""
    homes = [path.parent, path.parent / ".hydra"]
    if path.parent.name.lower() in _INNER:
        homes += [path.parent.parent, path.parent.parent / ".hydra"]
    found: list[Path] = []
    for home in homes:
        names = [name for name in _settings_in(home, _changed(home)) if _belongs(name, path)]
        found += [home / name for name in sorted(names, key=lambda name: (not name.startswith(path.stem), name))]
    return found


def _belongs(name: str, path: Path) -> bool:
    """Whether a file of settings is that of this log: exp1.csv has exp1.yaml or exp1_config.json, or else config.json."""
    own = _SETTINGS.fullmatch(name.lower())
    return name != path.name and (name == f"{path.stem}.yaml" or (own is not None and own[1] in (None, path.stem.lower())))


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _settings_in(folder: Path, changed: int) -> list[str]:
    """Names in a folder that may be settings; `changed` makes a folder that was written to be listed again."""
    try:
        with os.scandir(folder) as entries:
            return (
                [e.name for e in entries if e.name.lower().endswith((".json", ".yaml", ".yml")) and e.is_file()]
                if changed
                else []
            )
    except OSError:
        return []


def _plausible(path: Path) -> bool:
    name = path.name.lower()
    if name.startswith((".", *_NOT_FILES)) or _SETTINGS.fullmatch(name):
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
    """The folders next to this one that hold the other splits of the same run; itself alone when there are none."""
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
    log.hparams = {**beside(sources[0].path or folder / "events", log.notes), **log.hparams}
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


def once(items: list[T], mark: Callable[[T], Any], told: Callable[[T], Told], noted: Callable[[T, str], T]) -> list[T]:
    """Without runs that another format of the same folder tells as well; the fuller one is kept and says so."""
    kept: list[T] = []
    by_curve: dict[Any, list[int]] = {}
    for item in items:
        curve, (kind, source, size) = mark(item), told(item)
        twin = next((i for i in by_curve.get(curve, []) if told(kept[i])[0] != kind), None) if curve else None
        if twin is None:
            by_curve.setdefault(curve, []).append(len(kept))
            kept.append(item)
            continue
        _, other, most = told(kept[twin])
        kept[twin] = noted(kept[twin], source) if most >= size else noted(item, other)
    return kept


def _told_twice(run: Run, other: str) -> Run:
    return run.with_(notes=[told_twice(other)])


def told_twice(other: str) -> str:
    """The note on a run that is told by another log as well."""
    return f"{other} holds the same run in another format and was left out"


def mark(run: Run) -> tuple[object, ...]:
    """What tells a curve: how long, how it begins and how it ends, to four digits."""
    for name in ("loss/train", "loss/val"):
        series = run.signals.get(name)
        if isinstance(series, Series) and len(series) >= 3:
            ends = [float(f"{v:.3e}") if v == v else None for v in (series.values[0], series.values[1], series.values[-1])]
            return name, len(series), *ends
    return ()
