"""Finding records: which directories are one, and what can be said of each without reading its numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx import opening, settings
from traindx.errors import RecordError, UsageError
from traindx.record.format import MAGIC, PROLOGUE, Kind, from_json, scan
from traindx.record.manifest import MANIFEST, Manifest, Start, read_manifest, starts
from traindx.record.process import ended_by

_TAIL = 64 << 10  # bytes of the words that are looked at: the last beat lies within the last few hundred


@dataclass(frozen=True)
class Record:
    """What a list of runs shows of one."""

    path: Path
    name: str
    created: float | None
    updated: float | None  # last sign of life, wall-clock seconds
    ended: str  # closed, exit, exception …; running or killed when it did not say
    last_step: int | None
    ranks: int
    restarts: int
    trouble: str | None = None


def is_record(path: str | Path) -> bool:
    """Whether this is the directory (or the manifest) of a traindx record."""
    path = Path(path)
    if path.name == MANIFEST:
        path = path.parent
    if not path.is_dir():
        return False
    try:
        return not _unknown(read_manifest(path)) or bool(starts(path))
    except RecordError:
        return True  # a newer one: reading it says so
    except OSError:
        return False


def list_records(folder: str | Path, now: float | None = None) -> list[Record]:
    """The records directly below a folder (or the folder itself, if it is one), newest first."""
    folder = Path(folder)
    if is_record(folder):
        return [_record(folder, now)]
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_dir())
    found = [record for n in names if is_record(folder / n) and (record := _readable(folder / n, now)) is not None]
    return sorted(found, key=lambda r: (-(r.updated or r.created or 0.0), r.path.name))


def named(text: str, folder: str | Path | None = None) -> Path:
    """The record that `@last`, `@2` (the last but one), a name or the beginning of a name means, in the folder of records."""
    home = Path(folder or settings.folder())
    found = list_records(home) if home.is_dir() else []
    if not found:
        raise UsageError(f"'{text}' is looked up among the records in {home}, and there are none")
    if text.startswith("@"):
        place = {"last": 1}.get(text[1:], int(text[1:]) if text[1:].isdecimal() and len(text) < 9 else 0)
        if not 1 <= place <= len(found):
            raise UsageError(
                f"'{text}' is no run: there are @last and @1 (the newest) to @{len(found)}; `traindx ls` shows them"
            )
        return found[place - 1].path
    hits = _called(text, found)
    if len(hits) != 1:
        told = f"fits {', '.join(p.name for p in hits[:5])}" if hits else f"is the name of no run in {home}"
        raise UsageError(f"'{text}' {told}; `traindx ls` shows them")
    return hits[0]


def _called(text: str, found: Sequence[Record]) -> list[Path]:
    """The records of that name; where there is none, those whose name begins so."""
    return [r.path for r in found if text in (r.path.name, r.name)] or [r.path for r in found if r.path.name.startswith(text)]


def spoken(text: str | Path) -> Path:
    """The path that is meant: itself, or the record that `@last`, a name or a prefix stands for where there is no such path."""
    path, word = Path(text), str(text)
    if path.exists() or (not word.startswith("@") and (len(path.parts) != 1 or path.suffix)):
        return path
    home = settings.folder()
    fits_none = not word.startswith("@") and not (home.is_dir() and _called(word, list_records(home)))
    return path if fits_none else named(word, home)


def _readable(path: Path, now: float | None) -> Record | None:
    """A record; when part of it may not be read, a line that says so; None when it has just gone."""
    try:
        return _record(path, now)
    except FileNotFoundError:
        return None
    except OSError as why:
        return Record(path, path.name, None, None, "unreadable", None, 0, 0, f"cannot be read: {why.strerror or why}")


def _unknown(manifest: Manifest) -> bool:
    return not manifest.data


def _record(path: Path, now: float | None) -> Record:
    try:
        manifest, own = read_manifest(path), starts(path)
    except RecordError as why:
        return Record(path, path.name, None, None, "unknown", None, 0, 0, str(why))
    created = manifest.data.get("created")
    first = [s for s in own if s.rank == own[0].rank]
    pulse = _pulse(first[-1]) if first else {}
    updated, step = pulse.get("time"), pulse.get("step")
    return Record(
        path,
        str(manifest.data.get("name") or path.name),
        float(created) if isinstance(created, int | float) else None,
        float(updated) if isinstance(updated, int | float) else None,
        ended_by(pulse, now),
        step if isinstance(step, int) else None,
        len({s.rank for s in own}),
        max(0, len(first) - 1),
        manifest.trouble,
    )


def _pulse(start: Start) -> dict[str, Any]:
    """The last sign of life of a process, from the end of its words."""
    for path in sorted((p for p in start.path.iterdir() if p.match("words-*.tdx")), reverse=True):  # glob hides what is shut
        with opening.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            data = file.read()
        at = PROLOGUE.size if size <= _TAIL else max(0, data.find(MAGIC))
        frames, _, _ = scan(data, at)
        for frame in reversed(frames):
            if frame.kind in (Kind.BEAT, Kind.END):
                try:
                    value = from_json(frame.payload)
                except ValueError:
                    continue
                if isinstance(value, dict):
                    return value
    return {}
