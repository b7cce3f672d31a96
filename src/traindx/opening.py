"""The one way to open a file that somebody else may have written.

A path that you name may be a link or a pipe. What is found inside a folder must be a regular file and no link: a device would
be read without end, a pipe waited for, a link could show a file from elsewhere. What is read in one piece has a limit.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

PRIVATE = 0o600
SOURCE = 4 << 20  # bytes of a Python file that is quoted
PATIENCE_S = 2.0  # a pipe with a name that nobody writes to is given up after this


class Refused(OSError):
    """It is there, and will not be read; the message says why."""


def opened(path: str | Path, *, named: bool = False, pipe: bool = False) -> BinaryIO:
    """A file for reading. `named`: you gave this very path, so it may be a link; with `pipe` also a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    flags |= 0 if named else getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(handle).st_mode
    if stat.S_ISFIFO(mode) and named and pipe:
        if Path(os.path.realpath(path)).exists() and not select.select([handle], [], [], PATIENCE_S)[0]:
            os.close(handle)
            raise Refused(f"is not a regular file but a pipe, and nobody wrote to it within {PATIENCE_S:g} s")
        os.set_blocking(handle, True)  # with a writer, or the shell's own pipe: wait for it as any program does
    elif not stat.S_ISREG(mode):
        os.close(handle)
        raise Refused("is not a regular file (a device, pipe, socket or folder), so it is not read")
    return os.fdopen(handle, "rb")


def here() -> Path:
    """The current folder; the root of the file system where it has been deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def whole(path: str | Path, most: int, *, named: bool = False) -> bytes:
    """All bytes of a file that has at most so many."""
    with opened(path, named=named) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused(f"is larger than {most >> 20 or most} {'MiB' if most >> 20 else 'bytes'}, so it is not read")
    return data


def end(path: str | Path, most: int) -> bytes:
    """The last bytes of a file, at most so many."""
    with opened(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def parsed(data: bytes | str) -> Any:
    """JSON, or ValueError: nesting that is too deep is no JSON for us."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def private(path: str | Path, how: int) -> int:
    """A handle of a file of ours that only its owner may read; never through a link that lies in its place."""
    return os.open(path, how | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0), PRIVATE)


def for_group(path: str | Path, record: Path | None = None) -> None:
    """Let the group read what was just made of a record, where the settings say so, or where it may read the `record`."""
    shared = os.environ.get("TRAINDX_RECORDS") == "group" if record is None else record.stat().st_mode & stat.S_IRGRP
    if shared:
        mode = os.stat(path).st_mode  # noqa: PTH116 (paths of many kinds)
        os.chmod(path, stat.S_IMODE(mode) | (0o050 if stat.S_ISDIR(mode) else 0o040))  # noqa: PTH101


def cache() -> Path | None:
    """Our cache folder; None where there is none that only we can write to. $TRAINDX_CACHE names one, 0 none."""
    chosen = os.environ.get("TRAINDX_CACHE", "")
    if chosen == "0":
        return None
    try:
        base = Path(chosen) if chosen else _caches() / "traindx"
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = base.stat()
    except (OSError, RuntimeError):  # no home, a full or read-only disk
        return None
    foreign = hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return None if foreign else base


def _caches() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def mark(fd: int) -> tuple[int, int]:
    """What a handle of ours stands for. Who closes all handles, as daemons do, gets our number for a file of its own."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def still(fd: int, marked: tuple[int, int]) -> bool:
    """Whether a handle is still the one that was marked; else it must not be written to, cut or closed."""
    try:
        return mark(fd) == marked
    except OSError:
        return False
