"""Verdicts kept in the user's cache folder, so that a folder of runs is judged once.

A verdict is found again by a digest of the record, of our own code, of the house rules and of the settings. Nothing that
lies next to a record is ever believed. Without a folder that is ours alone, nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from traindx import __version__, opening
from traindx import rule as rules_
from traindx.settings import Settings

MOST_BYTES = 512 << 20  # of all that is kept; beyond it the oldest go
PIECE = 64 << 10  # bytes read at the beginning and at the end of each file
_MOST = 64 << 20


@cache
def home() -> Path | None:
    """The folder of kept verdicts; None where there is none that only we can write to."""
    base = opening.cache()
    if base is None:
        return None
    try:
        (base / "verdicts").mkdir(exist_ok=True, mode=0o700)
    except OSError:  # a full or read-only disk
        return None
    return base / "verdicts"


def key(path: Path, beside: Iterable[Path], settings: Settings | None) -> str:
    """What a verdict is found by: the path as given, its files and those next to it, our code, and settings that matter."""
    told = replace(settings or Settings(), source="", fail_on=None, dir=None, alerts=(), sync=None, retention={}, expired=())
    mark = hashlib.sha256(f"{path}|{_engine()}|{told!r}".encode(errors="surrogateescape"))
    for file in (*(_below(path) if path.is_dir() else (path,)), *beside):
        _feed(mark, file)
    return mark.hexdigest()


def get(name: str, *, reports: bool = False) -> list[dict[str, Any]] | None:
    """The rows kept under a key, or with `reports` what the pages show; None when there is nothing whole."""
    folder = home()
    if folder is None:
        return None
    try:
        with opening.opened(folder / name) as file:
            lines = file.readline(_MOST), file.readline(_MOST) if reports else b"[]"
        found = json.loads(lines[reports])
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def put(name: str, rows: list[dict[str, Any]], reports: list[dict[str, Any]]) -> None:
    """Keep the verdicts of one part; a disk that refuses costs only this."""
    folder = home()
    if folder is None:
        return
    beside = folder / f".{name}.{os.getpid()}"
    try:
        with os.fdopen(opening.private(beside, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(f"{json.dumps(rows)}\n{json.dumps(reports)}\n")
        beside.replace(folder / name)
    except OSError:
        beside.unlink(missing_ok=True)


def tidy() -> None:
    """Let the oldest verdicts go when there are too many."""
    folder = home()
    if folder is None:
        return
    try:
        with os.scandir(folder) as entries:
            known = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in entries)
        total = sum(size for _, size, _ in known)
        for _, size, path in known:
            if total <= MOST_BYTES:
                return
            total -= size
            Path(path).unlink(missing_ok=True)
    except OSError:
        return


@cache
def _engine() -> str:
    """Our version, our code and the house rules, as they are installed now."""
    package = Path(__file__).parents[1]
    mark = hashlib.sha256(__version__.encode())
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".json")):
                about = Path(folder, name).stat()
                mark.update(f"{name}{about.st_size}{about.st_mtime_ns}".encode())
    mark.update(repr(rules_.house_mark()).encode())
    return mark.hexdigest()


def _below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if f != "capsules")
        yield from (Path(folder, name) for name in sorted(names))


def _feed(mark: Any, file: Path) -> None:
    try:
        about = file.lstat()
        mark.update(f"{file.name}|{about.st_size}|{about.st_mtime_ns}|".encode(errors="surrogateescape"))
        if not stat.S_ISREG(about.st_mode):
            return
        with opening.opened(file) as data:
            mark.update(data.read(PIECE))
            if about.st_size > 2 * PIECE:
                data.seek(-PIECE, os.SEEK_END)
            mark.update(data.read(PIECE))
    except OSError:
        mark.update(b"unreadable")
