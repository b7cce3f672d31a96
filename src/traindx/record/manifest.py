"""A run's directory: its manifest `run.json`, and one folder per rank and process start.

run/
  run.json          what this is; written once, by whoever comes first
  rank0-start0/     the files of one process; nobody else ever writes into them
  rank0-start1/     rank 0 after a restart: the later start is believed where steps overlap
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.errors import NewerRecord
from traindx.record.format import VERSION, to_json

MANIFEST = "run.json"
SCHEMA = "traindx.record/"
_START = re.compile(r"rank(\d{1,6})-start(\d{1,6})")
_MOST_BYTES = 1 << 20  # of a manifest


@dataclass(frozen=True)
class Start:
    """The folder of one process."""

    rank: int
    number: int
    path: Path


@dataclass(frozen=True)
class Manifest:
    """What `run.json` says; `trouble` tells why it cannot be relied on."""

    data: Mapping[str, Any]
    trouble: str | None = None


def starts(run: Path) -> list[Start]:
    """The folders of all processes that wrote into this run, by rank and order of start."""
    found = []
    with os.scandir(run) as entries:
        for entry in entries:
            match = _START.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False):
                found.append(Start(int(match[1]), int(match[2]), run / entry.name))
    return sorted(found, key=lambda s: (s.rank, s.number))


def claim(run: Path, rank: int, *, name: str, version: str) -> Start:
    """A fresh folder for this process, and a manifest if there is none; OSError when that cannot be had."""
    _make(run)
    _ensure_manifest(run, name, version)
    taken = [s.number for s in starts(run) if s.rank == rank]
    number = max(taken, default=-1) + 1
    while True:
        folder = run / f"rank{rank}-start{number}"
        try:
            folder.mkdir(0o700)
            opening.for_group(folder)
        except FileExistsError:
            number += 1  # another process of this rank was faster
            continue
        return Start(rank, number, folder)


def fresh_dir(base: Path, name: str, now: float | None = None) -> Path:
    """A name for a new run below `base`: NAME-TIME, with a number when that is taken; nothing is created."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80] or "run"
    wanted = base / f"{plain}-{stamp}"
    n = 2
    while wanted.exists():
        wanted = base / f"{plain}-{stamp}-{n}"
        n += 1
    return wanted


def read_manifest(run: Path) -> Manifest:
    """The manifest, with what is wrong with it; NewerRecord when a later traindx wrote it."""
    path = run / MANIFEST
    try:
        data = opening.parsed(opening.whole(path, _MOST_BYTES))
    except FileNotFoundError:
        return Manifest({}, f"{MANIFEST} is missing")
    except (OSError, ValueError) as why:
        return Manifest({}, f"{MANIFEST} cannot be read ({why})")
    if not isinstance(data, dict) or not str(data.get("schema", "")).startswith(SCHEMA):
        return Manifest({}, f"{MANIFEST} is not the manifest of a traindx record")
    _refuse_newer(run, data)
    if data.get("sha256") != _digest(data):
        return Manifest(data, f"{MANIFEST} was changed after it was written")
    return Manifest(data)


def newer(run: Path, found: object, by: object = None) -> NewerRecord:
    """The refusal of a record that is ahead of this traindx."""
    writer = f"traindx {by}" if by else "a later traindx"
    return NewerRecord(
        f"{run}: this record was written by {writer} in record format {found}; this traindx reads formats up to {VERSION}. "
        "Upgrade traindx to read it; nothing was changed."
    )


def _refuse_newer(run: Path, data: Mapping[str, Any]) -> None:
    number = str(data["schema"]).removeprefix(SCHEMA)
    if number.isdecimal() and int(number) > VERSION:
        raise newer(run, number, data.get("traindx"))


def _digest(data: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in sorted(data.items()) if key != "sha256"}
    return hashlib.sha256(to_json(rest)).hexdigest()


def _make(run: Path) -> None:
    """The run's directory, and those above it that are missing, for this user only."""
    missing = [p for p in (run, *run.parents) if not p.is_dir()]
    for folder in reversed(missing):
        try:
            folder.mkdir(0o700)
            opening.for_group(folder)
        except FileExistsError:
            if not folder.is_dir():
                raise


def _ensure_manifest(run: Path, name: str, version: str) -> None:
    path = run / MANIFEST
    if os.path.lexists(path):
        return
    data = {
        "schema": f"{SCHEMA}{VERSION}",
        "id": uuid.uuid4().hex,
        "name": name,
        "created": time.time(),
        "traindx": version,
    }
    replace_file(path, to_json({**data, "sha256": _digest(data)}), keep_existing=True)


def replace_file(path: Path, content: bytes, *, keep_existing: bool = False) -> None:
    """Write a file whole or not at all: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        opening.for_group(temporary)
        _settle(temporary, path, keep_existing)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _settle(temporary: Path, path: Path, keep_existing: bool) -> None:
    if keep_existing:
        try:
            os.link(temporary, path)  # fails when somebody was faster, where rename would replace theirs
            return
        except FileExistsError:
            return
        except OSError as why:
            if why.errno in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT):
                raise
            # no hard links on this file system
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system knows how."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows and some mounts cannot open a folder; the rename itself has happened
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)
