"""A record as one zip file: what looks secret is hidden and listed, capsules stay out, and only what we write is unpacked."""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.errors import EnvironmentFault, RecordError, UsageError
from traindx.record import diary, sources
from traindx.record.format import PROLOGUE, Kind, frame, from_json, prologue, scan, to_json
from traindx.record.manifest import MANIFEST, read_manifest
from traindx.record.reader import read as read_record
from traindx.run import Run

MOST_BYTES = 4 << 30  # unpacked
MOST_MEMBERS = 20_000
MOST_RATIO = 500  # unpacked over packed: beyond it is a bomb
_PIECE = 1 << 20
_MEMBER = re.compile(r"rank\d{1,6}-start\d{1,6}/((words|(narrow|wide)\.\d)-\d{6})\.tdx")
_TEXTS = (MANIFEST, diary.NAME, sources.FILE, sources.CODE)
_WORDS = (Kind.HEADER, Kind.FACTS, Kind.EVENTS, Kind.NOTES)
_NOT_SECRET = frozenset(("git.commit", "sha256", "id", "files"))  # digests, by nature random

Scrub = Callable[[str, str], str]  # the name of a value and its text → the text without secrets


def is_bundle(path: Path) -> bool:
    """Whether a file is a zip with the manifest of a record in it."""
    try:
        if path.suffix.lower() != ".zip" or not path.is_file() or not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.NameToInfo
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


def pack(record: Path, target: Path, scrub: Scrub) -> list[str]:
    """Write the bundle; gives a sentence for each value that was hidden."""
    hidden: list[str] = []
    files = sorted(p for p in record.rglob("*") if p.is_file() and not p.is_symlink())
    try:
        with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                name = path.relative_to(record).as_posix()
                if name in _TEXTS or _MEMBER.fullmatch(name):
                    with opening.opened(path) as file:
                        archive.writestr(name, _clean(name, file.read(), scrub, hidden))
    except FileExistsError:
        raise UsageError(f"{target} is there already; choose another name") from None
    except OSError as why:
        target.unlink(missing_ok=True)
        raise EnvironmentFault(f"cannot write {target}: {why.strerror or why}") from None
    return list(dict.fromkeys(hidden))


def _clean(name: str, data: bytes, scrub: Scrub, hidden: list[str]) -> bytes:
    if name == MANIFEST:
        return data
    if name in _TEXTS:
        parts = [json.loads(line) for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return "\n".join(json.dumps(_scrubbed(part, name, scrub, hidden)) for part in parts).encode() + b"\n"
    if not name.partition("/")[2].startswith("words"):
        return data  # numbers
    frames, _, _ = scan(data)
    out = [data[: PROLOGUE.size] if len(data) >= PROLOGUE.size else prologue()]
    for f in frames:
        payload = bytes(f.payload)
        if f.kind in _WORDS:
            payload = to_json(_scrubbed(from_json(payload), Kind(f.kind).name.lower(), scrub, hidden))
        out.append(frame(f.kind, f.stream, f.seq, payload))
    return b"".join(out)


def _scrubbed(value: Any, name: str, scrub: Scrub, hidden: list[str]) -> Any:
    if isinstance(value, dict):
        return {k: v if k in _NOT_SECRET else _scrubbed(v, str(k), scrub, hidden) for k, v in value.items()}
    if isinstance(value, list):
        return [_scrubbed(v, name, scrub, hidden) for v in value]
    if isinstance(value, str):
        clean = scrub(name, value)
        if clean != value:
            hidden.append(f"hidden: a value of '{name}'")
        elif sources.HIDDEN in value:
            hidden.append(f"hidden when it was recorded: a value of '{name}'")
        return clean
    return value


def read(path: Path) -> Run:
    """The run in a bundle."""
    with tempfile.TemporaryDirectory(prefix="traindx-") as home:
        try:
            _unpack(path, Path(home))
            run = read_record(home)
        except RecordError as why:
            raise type(why)(str(why).replace(home, str(path))) from None
        beside = {"diary": diary.entries(home), "code.source": sources.kept(home), **sources.code(home)}
        found = run.with_(facts={key: value for key, value in beside.items() if value})
    return replace(found, source=str(path))


def _unpack(path: Path, home: Path) -> None:
    """Unpack what we write, never more than was promised; anything else is refused as a whole."""
    left = MOST_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            # the manifest first: it says whether a later version wrote the rest
            members = sorted(archive.infolist(), key=lambda m: m.filename != MANIFEST)
            if len(members) > MOST_MEMBERS:
                raise RecordError(f"{path}: holds {len(members)} files, more than any bundle of ours; it is not unpacked")
            for m in members:
                if m.filename not in _TEXTS and not _MEMBER.fullmatch(m.filename):
                    raise RecordError(f"{path}: holds {m.filename[:80]!r}, which no bundle of ours does; it is not unpacked")
                if m.file_size > left or m.file_size > MOST_RATIO * max(m.compress_size, 1) + _PIECE:
                    raise RecordError(f"{path}: {m.filename} would be {m.file_size} bytes; that is no bundle of ours")
                target = home / m.filename
                target.parent.mkdir(mode=0o700, exist_ok=True)
                with archive.open(m) as packed, target.open("xb") as out:
                    while piece := packed.read(_PIECE):
                        left -= len(piece)
                        out.write(piece)
                if m.filename == MANIFEST:
                    read_manifest(home)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, zlib.error) as why:
        raise RecordError(f"{path}: a broken bundle: {why}") from None
