"""Records elsewhere: read from any address fsspec knows, and written to a local spool that is copied there occasionally.

What can be lost: a run that dies with its machine leaves at the address what was copied last, so at most `EVERY_S` seconds of
it (and the second the writer itself may lose). The training never waits for a copy.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from traindx.errors import EnvironmentFault, NothingReadable, UsageError

SCHEMES = (
    "s3",
    "s3a",
    "gs",
    "gcs",
    "abfs",
    "abfss",
    "az",
    "ssh",
    "sftp",
    "hdfs",
    "webhdfs",
    "oss",
    "r2",
    "hf",
    "memory",
    "file",
)
MOST_FILES, MOST_BYTES = 20_000, 8 << 30
EVERY_S, LAST_S = 30.0, 20.0  # between two copies; how long the end of a program waits for the last one


def is_remote(text: str) -> bool:
    """Whether a path is an address that is read through fsspec.

    >>> is_remote("s3://bucket/run"), is_remote("runs/exp1"), is_remote("C://runs"), is_remote("https://x/y")
    (True, False, False, False)
    """
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


@contextmanager
def fetched(address: str) -> Iterator[Path]:
    """A local copy of a file or folder there, for as long as the block lasts."""
    fs, path = opened(address)
    with tempfile.TemporaryDirectory(prefix="traindx-") as home:
        try:
            yield _fetch(fs, path, address, Path(home))
        except (OSError, ImportError) as why:
            raise NothingReadable(f"{address}: cannot be read: {why}"[:300]) from None


def _fetch(fs: Any, path: str, address: str, home: Path) -> Path:
    name = PurePosixPath(path.rstrip("/")).name or "run"
    if fs.isfile(path):
        fs.get_file(path, str(home / name))
        return home / name
    found = {k: v for k, v in fs.find(path, detail=True).items() if v.get("type", "file") == "file"}
    if not found:
        raise NothingReadable(f"{address}: there is nothing there")
    size = sum(int(v.get("size") or 0) for v in found.values())
    if len(found) > MOST_FILES or size > MOST_BYTES:
        raise UsageError(f"{address}: {len(found)} files of {size / 1e9:.1f} GB are too many to fetch; name one run of them")
    root = home / name
    for key in sorted(found):
        target = root / _inside(key, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        fs.get_file(key, str(target))
    return root


def _inside(key: str, path: str) -> PurePosixPath:
    """A name below the folder; anything that would lead out of it is refused."""
    own = PurePosixPath(key.strip("/")).relative_to(PurePosixPath(path.strip("/")))
    if ".." in own.parts or own.is_absolute():
        raise NothingReadable(f"{key}: leads out of its folder")
    return own


def opened(address: str) -> tuple[Any, str]:
    """The file system behind an address and the path in it."""
    if not is_remote(address):
        raise UsageError(f"{address!r} is no address; it looks like s3://bucket/run")
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise EnvironmentFault(f"{address}: needs fsspec: pip install 'traindx[remote]'") from None
    try:
        fs, path = core.url_to_fs(address)
    except (ImportError, ValueError) as why:  # the protocol's own package is missing, or there is no such protocol
        raise EnvironmentFault(f"{address}: {why}") from None
    return fs, str(path)


class Spool(threading.Thread):
    """Copies what is new in a local run directory to an address, occasionally and once more at the end; never raises."""

    def __init__(self, folder: Path, address: str, every: float = EVERY_S) -> None:
        super().__init__(name="traindx-spool", daemon=True)
        self.folder, self.address, self.every = folder, address, every
        self.trouble = ""  # the latest reason why a copy could not be made
        self.copied = 0
        self._fs, self._path = opened(address)
        self._done: dict[Path, tuple[int, int]] = {}  # size and time of what was copied
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self.every):
            self.copy()
        self.copy()

    def close(self, wait: float = LAST_S) -> bool:
        """Make the last copy; False when it did not end in time."""
        self._over.set()
        self.join(wait)
        return not self.is_alive() and not self.trouble

    def copy(self) -> int:
        """Copy every file that has grown or changed since its last copy; gives their number."""
        count = 0
        try:
            for file in sorted(p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()):
                found = file.stat()
                state = (found.st_size, found.st_mtime_ns)
                if self._done.get(file) != state:
                    self._put(file)
                    self._done[file] = state
                    count += 1
            self.trouble = ""
        except Exception as why:  # a file system of somebody else's: whatever it raises, the next copy tries again
            self.trouble = f"{type(why).__name__}: {why}"[:300]
        self.copied += count
        return count

    def _put(self, file: Path) -> None:
        target = f"{self._path.rstrip('/')}/{file.relative_to(self.folder).as_posix()}"
        self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="traindx-") as home:  # of one moment: the writer appends meanwhile
            still = shutil.copy(file, Path(home) / "copy")
            self._fs.put_file(str(still), target)
