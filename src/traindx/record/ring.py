"""A stream of frames over numbered segment files: appended, synced, rolled, and retired from the old end.

No call here catches an OSError: the worker decides what a full disk means. Whatever was not yet known to be on disk stays in
`pending` and is written again, with the same numbers, into a fresh segment; the reader takes each number once.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from traindx import opening
from traindx.record.format import Kind, frame, prologue, scan
from traindx.record.manifest import sync_folder

_AT_ONCE = 4 << 20  # bytes handed to one os.write
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)

Definitions = Callable[[int], Sequence[tuple[Kind, bytes]]]


@dataclass(slots=True)
class Item:
    """A numbered frame on its way to disk."""

    kind: Kind
    payload: bytes
    layout: int = 0
    last: int = -1  # number of its last record within the layout
    rows: int = 0
    seq: int = 0


@dataclass
class Segment:
    """What we remember of a file we wrote."""

    path: Path
    size: int = 0
    newest: dict[int, int] = field(default_factory=dict)  # layout → highest record number in it


class Ring:
    """One stream of a process; only its worker touches it."""

    def __init__(self, name: str, stream: int, define: Definitions, roll: int) -> None:
        self.name, self.stream, self.roll = name, stream, roll
        self.folder, self.housed = Path(), False
        self.pending: deque[Item] = deque()
        self.segments: list[Segment] = []
        self._header, self._define = b"{}", define
        self._unsynced: list[Item] = []
        self._condemned: list[Segment] = []
        self._defined: set[int] = set()
        self._fd: int | None = None
        self._mark = (0, 0)  # which file that is
        self._fresh = False  # a segment whose name may not be on disk yet
        self._number = 0
        self._seq = 0

    def settle(self, folder: Path, header: bytes) -> None:
        """Say where the segments go, and what each of them opens with."""
        self.folder, self._header, self.housed = folder, header, True

    @property
    def total(self) -> int:
        """Bytes on disk that are not on their way out."""
        return sum(s.size for s in self.segments)

    @property
    def waiting(self) -> int:
        """Bytes held in memory because they are not yet written."""
        return sum(len(i.payload) for i in self.pending)

    @property
    def settled(self) -> bool:
        return not self.pending and not self._unsynced

    def put(self, item: Item) -> None:
        if not item.seq:
            self._seq += 1
            item.seq = self._seq
        self.pending.append(item)

    def write(self) -> None:
        """Hand everything pending to the system; on failure all of it stays pending and the segment is given up."""
        while self.pending:
            try:
                self._some()
            except OSError:
                self._give_up()
                raise

    def sync(self) -> None:
        """Make sure that what was written is on disk; then remove what was retired."""
        if self._fd is not None and self._unsynced:
            try:
                self._check(self._fd)
                if os.fstat(self._fd).st_nlink == 0:
                    raise OSError(errno.ENOENT, "the segment was deleted while it was written", str(self.segments[-1].path))
                os.fsync(self._fd)
                if self._fresh:
                    sync_folder(self.folder)  # the file's name, too, must outlive a power cut
                    self._fresh = False
            except OSError:
                self._give_up()  # after a failed fsync nothing about this file can be believed
                raise
            self._unsynced.clear()
        if self.settled:
            for segment in self._condemned:
                _remove(segment.path)
            self._condemned.clear()

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            if opening.still(fd, self._mark):
                os.close(fd)

    def _check(self, fd: int) -> None:
        if not opening.still(fd, self._mark):
            self._fd = None
            raise OSError(errno.EBADF, "the program has closed our file", str(self.segments[-1].path))

    def retire_oldest(self, stale: Callable[[int, int], bool]) -> bool:
        """Give up the oldest closed segment; frames that are not `stale(layout, last)` move to the newest. False: none left."""
        if len(self.segments) < 2:
            return False
        segment = self.segments.pop(0)
        if not all(stale(layout, last) for layout, last in segment.newest.items()):
            self._carry(segment, stale)
        self._condemned.append(segment)
        return True

    def _carry(self, segment: Segment, stale: Callable[[int, int], bool]) -> None:
        with opening.opened(segment.path) as file:
            frames, _, _ = scan(file.read())
        for f in frames:
            if f.seq:
                item = self._item(f.kind, bytes(f.payload), f.seq)
                if not stale(item.layout, item.last):
                    self.pending.append(item)

    @staticmethod
    def _item(kind: int, payload: bytes, seq: int) -> Item:
        layout = int.from_bytes(payload[:4], "little")
        count = int.from_bytes(payload[4:8], "little")
        first = int.from_bytes(payload[8:16], "little")
        stride = int.from_bytes(payload[16:20], "little") if kind == Kind.ROWS else 1
        return Item(Kind(kind), payload, layout, first + (count - 1) * stride, count, seq)

    def _some(self) -> None:
        """Write a few megabytes of what is pending."""
        if self._fd is None:
            self._open()
        segment = self.segments[-1]
        parts: list[bytes] = []
        if not segment.size:
            parts += [prologue(), frame(Kind.HEADER, self.stream, 0, self._header)]
        taken: list[Item] = []
        size = 0
        while self.pending and size < min(_AT_ONCE, self.roll):
            item = self.pending.popleft()
            taken.append(item)
            known = not item.layout or item.layout in self._defined
            meaning = [] if known else [frame(k, self.stream, 0, text) for k, text in self._define(item.layout)]
            # Said twice, around the first batch that needs it: one damaged place must not cost more than one batch.
            parts += [*meaning, frame(item.kind, self.stream, item.seq, item.payload), *meaning]
            self._defined.add(item.layout)
            size += len(item.payload)
        self._unsynced += taken  # from here on they are kept until an fsync succeeds
        segment.size += self._put_bytes(b"".join(parts))
        for item in taken:
            segment.newest[item.layout] = max(item.last, segment.newest.get(item.layout, -1))
        if segment.size >= self.roll:
            self.sync()
            self.close()

    def _put_bytes(self, data: bytes) -> int:
        assert self._fd is not None
        view = memoryview(data)
        self._check(self._fd)
        while view:
            written = os.write(self._fd, view)  # may be short without an error: quota, signal, size limit
            if written <= 0:
                raise OSError(errno.EIO, "nothing was written")
            view = view[written:]
        return len(data)

    def _open(self) -> None:
        for _ in range(1000):
            self._number += 1
            path = self.folder / f"{self.name}-{self._number:06d}.tdx"
            try:
                self._fd = os.open(path, _FLAGS, 0o600)
                self._mark = opening.mark(self._fd)
                opening.for_group(path)
            except FileExistsError:
                continue  # a leftover of ours: never append to what might be torn
            self._defined.clear()
            self._fresh = True
            self.segments.append(Segment(path))
            return
        raise OSError(errno.EEXIST, "no free segment number", str(self.folder))

    def _give_up(self) -> None:
        """Leave the current segment, keeping in memory all that is not surely on disk."""
        self.pending.extendleft(reversed(self._unsynced))
        self._unsynced.clear()
        if self._fd is None:
            return
        segment = self.segments[-1]
        with contextlib.suppress(OSError):  # where it cannot be helped a torn frame stays, and the reader says so
            self._check(self._fd)
            os.ftruncate(self._fd, segment.size)
        try:
            self.close()
        except OSError:
            self._fd = None
        if not segment.size:
            self.segments.pop()
            _remove(segment.path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a file too many does no harm: its records are known by number
        path.unlink()
