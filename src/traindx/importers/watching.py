"""Watching a log that is still being written: the runs anew whenever it has grown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from traindx.errors import NothingReadable
from traindx.run import Run

MOST_ENTRIES = 100_000


def changes(
    path: str | Path,
    read: Callable[[], list[Run]],
    *,
    every: float = 1.0,
    until: Callable[[], bool] | None = None,
) -> Iterator[list[Run]]:
    """What `read` gives of `path` now, and again each time a file there has changed; ends when `until` says so.

    A log that cannot be read yet is waited for. The last, half-written record of a file is left for the next look.
    """
    seen: tuple[tuple[str, int, int], ...] | None = None
    while True:
        now = _fingerprint(Path(path))
        if now != seen:
            seen = now
            try:
                runs = read()
            except NothingReadable:
                runs = []
            if runs:
                yield runs
        if until is not None and until():
            return
        time.sleep(every)


def _fingerprint(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of every file below `path`, links left alone."""
    out: list[tuple[str, int, int]] = []
    todo = [path]
    while todo and len(out) < MOST_ENTRIES:
        here = todo.pop()
        try:
            if here.is_dir():
                with os.scandir(here) as entries:
                    todo += [Path(e.path) for e in entries if not e.is_symlink()]
            else:
                info = here.stat()
                out.append((str(here), info.st_size, info.st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(out))
