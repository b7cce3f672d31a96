"""Importers: somebody's log, whatever wrote it, as runs.

    from traindx import importers
    runs = importers.read("runs/exp1")                       # file, folder, "-" for stdin
    runs = importers.read("log.csv", map={"train_loss": "loss/train"})
    runs = importers.read(frame)                             # pandas, polars, a dict of lists, Keras' History

Readers are our own and need none of the tools that wrote the logs. Every file is taken for hostile: lengths are checked
before use, nothing is executed or unpickled, links inside folders are not followed, inputs are never changed. What was
left out, fixed or guessed stands in a run's `notes`; what each column was taken for in its facts `columns` and `unmapped`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from traindx import opening, record, signals
from traindx.errors import NothingReadable, PartlyReadable, UsageError
from traindx.importers import aliases, folder, formats, frames, watching
from traindx.importers.assemble import runs_of
from traindx.importers.folder import files_beside, mark, natural, once, part, parts, told_twice
from traindx.importers.source import MAX_STDIN, Source
from traindx.importers.table import AXES, Log, Options
from traindx.record import bundle, remote
from traindx.run import Run

__all__ = ["files_beside", "follow", "mark", "natural", "once", "part", "parts", "read", "remember", "told_twice"]


def read(source: Any, *, map: Mapping[str, str] | None = None, strict: bool = False) -> list[Run]:
    """Every run in `source`: a path, "-" (stdin), a frame, a dict of lists, a list of records, or a Run.

    `map` corrects the meaning of columns: {"train_loss": "loss/train"}, {"it": "step"}, {"x": "it"}, {"junk": "ignore"};
    what `remember` kept next to a file holds too. With `strict`, anything that had to be skipped raises PartlyReadable.
    """
    if isinstance(source, Run):
        return [source]
    options = Options(_checked({**_remembered(source), **(map or {})}))
    runs = _runs(source, options)
    _check_used(options, runs, source)
    skipped = [note for run in runs for note in run.notes if "skipped" in note]
    if strict and skipped:
        raise PartlyReadable(f"{_name(source)}: {skipped[0]}" + (f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""))
    return runs


def follow(
    path: str | Path,
    *,
    map: Mapping[str, str] | None = None,
    every: float = 1.0,
    until: Callable[[], bool] | None = None,
) -> Iterator[list[Run]]:
    """The runs at `path` now, and again each time a file there has changed; ends when `until` says so.

    A log that cannot be read yet is waited for. The last, half-written record of a file is left for the next look.
    """
    return watching.changes(path, lambda: read(path, map=map), every=every, until=until)


def remember(path: Path, map: Mapping[str, str]) -> Path:
    """Keep what the columns of a file mean in a small file next to it, for every later reading; returns that file."""
    _checked(map)
    kept = path.with_name(f".{path.name}.map.json")
    kept.write_text(json.dumps({**_remembered(path), **map}, indent=1) + "\n", encoding="utf-8")
    return kept


def _remembered(source: Any) -> dict[str, str]:
    """What `remember` kept next to a file; nothing for other sources."""
    if not isinstance(source, str | Path) or "\x00" in str(source) or not 0 < len(Path(source).name) < 200:
        return {}
    kept = Path(source).with_name(f".{Path(source).name}.map.json")
    try:
        if kept.is_symlink() or not kept.is_file():
            return {}
        found = json.loads(Source.of(kept).whole(65536))
        return {str(column): str(target) for column, target in found.items()}
    except OSError:
        return {}
    except (ValueError, AttributeError, RecursionError):
        raise UsageError(f"{kept}: is no map of columns; delete it, or write it again with --map … --remember") from None


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else type(source).__name__


def _checked(wanted: Mapping[str, str]) -> dict[str, str]:
    """The user's corrections, with names that exist."""
    out = {}
    for column, target in wanted.items():
        name = str(target).strip()
        if column == "x":  # the axis, named the other way round
            role = aliases.meaning(name).role
            column, name = name, role if role in AXES else "step"
        if name not in (*AXES, "", "-", "ignore", "time") and (signals.spec(name) is None or name.endswith("*")):
            near = (
                ", ".join(s for s in signals.SIGNALS if s.split("/")[0] == name.split("/")[0])
                or "loss/train, loss/val, lr, grad_norm"
            )
            raise UsageError(
                f"'{column}' cannot be mapped to '{name}': there is no such signal (there are {near}, "
                f"metric/val/NAME …, and the axes {', '.join(AXES)})"
            )
        out[str(column)] = "timestamp" if name == "time" else name
    return out


def _check_used(options: Options, runs: list[Run], source: Any) -> None:
    """A column that is named in `map` and is in no run is a slip of the pen."""
    if not options.map:
        return
    there = {c for run in runs for c in (*run.fact("columns", {}), *run.fact("unmapped", ()))}
    there |= set(options.axes)
    missing = [c for c in options.map if c not in there]
    if missing and there:
        raise UsageError(f"{_name(source)}: there is no column '{missing[0]}'; there are {', '.join(sorted(there)[:20])}")


def _runs(source: Any, options: Options) -> list[Run]:
    if not isinstance(source, str | Path):
        return _of_logs(frames.read(source, options), options, _name(source))
    text = str(source)
    if text == "-":
        return _of_logs(formats.read(_piped("stdin", sys.stdin.buffer), options), options, "stdin")
    if remote.is_remote(text):
        with remote.fetched(text) as here:
            return [replace(run, source=run.source.replace(str(here), text.rstrip("/"), 1)) for run in _of_path(here, options)]
    if text.split("://")[0].lower() in ("http", "https", "ftp", "wandb") and "://" in text:
        raise UsageError(f"{text}: addresses are not opened; download the log and give its path")
    path = Path(text)
    try:
        return _of_path(path, options)
    except (OSError, ValueError) as why:  # a name with a NUL, a loop of links, a folder that vanished
        shown = repr(text if len(text) < 200 else f"{text[:100]}…{text[-50:]}")
        raise NothingReadable(f"{shown}: cannot be read: {getattr(why, 'strerror', None) or why}") from None


def _of_path(path: Path, options: Options) -> list[Run]:
    if "#" in path.name and not path.exists():
        return _one_of(path, options)
    if record.is_record(path):
        return [record.read(path)]
    if bundle.is_bundle(path):
        return [bundle.read(path)]
    if path.is_dir():
        return folder.read(path, options)
    file = _piped(str(path), opening.opened(path, named=True, pipe=True)) if path.is_fifo() else Source.of(path, linked=True)
    logs = formats.read(file, options)
    split = aliases.split_of(aliases.words(path.parent.name)) if len(aliases.words(path.parent.name)) == 1 else ""
    for log in logs:
        log.hparams = log.hparams or folder.beside(path, log.notes)
        log.split = log.split or (split if log.kind == "tensorboard" else "")
    return _of_logs(logs, options, str(path))


def _one_of(path: Path, options: Options) -> list[Run]:
    """One run of a file that holds several, by the name that the list of them gives: file.log#2."""
    file, _, label = str(path).rpartition("#")
    runs = _of_path(Path(file), options)
    found = [run for run in runs if run.source.rpartition("#")[2] == label]
    if not found:
        there = ", ".join(run.source.rpartition("#")[2] for run in runs[:8]) if len(runs) > 1 else ""
        raise UsageError(f"{file} holds no run '{label}'" + (f"; it holds {there}" if there else ", only one without a number"))
    return found


def _of_logs(logs: list[Log], options: Options, name: str) -> list[Run]:
    runs = [run for log in logs for run in runs_of(log, options)]
    if not runs:
        raise NothingReadable(f"{name}: it was read, but no column of it holds a curve")
    return runs


def _piped(name: str, stream: BinaryIO) -> Source:
    """What comes out of a pipe that you name, or of standard input."""
    data = stream.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise NothingReadable(f"{name}: more than {MAX_STDIN >> 20} MB; write it to a file and give its path")
    return Source(name, data=data)
