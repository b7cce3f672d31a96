"""All files of one process: a ring per stream and level, written and synced together, the oldest parts retired when full."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traindx import __version__
from traindx.record import known
from traindx.record.format import FRAME_EXTRA, Kind, Rows, Span, pack_rows, pack_span, to_json
from traindx.record.intake import Table
from traindx.record.manifest import Start, claim
from traindx.record.ring import Definitions, Item, Ring
from traindx.record.tiers import EVERY, FAN, LEVELS, SPAN, Budget, Tape

FRAME_BYTES = 1 << 20  # of records in one frame: what one damaged place can cost
STREAMS = ("narrow", "wide")  # series, matrices; "words" is the third
_SPAN_ROWS = 7  # a span takes about as many bytes as seven records: four statistics, and marks


class Shelf:
    """Puts records and words into files. Only `commit` touches the disk, and lets every OSError through."""

    def __init__(self, path: Path, header: dict[str, Any], name: str, budget: Budget, define: Definitions) -> None:
        self.path, self.budget, self.tapes = path, budget, dict[int, Tape]()
        self._header, self._name, self._define = header, name, define
        self._start: Start | None = None
        self._rings: dict[str, Ring] = {}
        self._bytes: dict[str, dict[int, int]] = {stream: {} for stream in STREAMS}  # by layout: level 0, frames and all

    def file(self, table: Table) -> None:
        """Number the records, queue them for level 0, and pass on what the coarser levels make of them."""
        identity = table.layout.identity
        tape = self.tapes.get(identity)
        if tape is None:
            tape = self.tapes[identity] = Tape(table.layout)
        rows = tape.number(table.rows)
        # Frames are retired whole: one that is large against its ring would take records along that are still needed.
        most = max(1, min(FRAME_BYTES, self._ring(f"{table.stream}.0").roll // 4) // table.layout.row_bytes)
        sizes = self._bytes[table.stream]
        for a in range(0, len(rows), most):
            size = self._put(table.stream, 0, rows.part(a, a + most))
            sizes[identity] = sizes.get(identity, 0) + size
        for level, part in tape.add(rows, self._span(table.stream)):
            self._put(table.stream, level, part)

    def word(self, kind: Kind, payload: bytes) -> bool:
        """Queue a word; False when there are too many already. Signs of life are always taken."""
        ring = self._ring("words")
        if kind in (Kind.FACTS, Kind.EVENTS, Kind.NOTES) and ring.total + ring.waiting > self.budget.words:
            return False
        ring.put(Item(kind, payload))
        return True

    def commit(self, *, sync: bool, between: Callable[[], None] = lambda: None) -> None:
        """Everything queued onto disk; OSError when the disk refuses any of it, and then it stays queued.

        A busy disk may take long over each fsync: `between` is called after each, and may queue more.
        """
        if self._start is None:
            begun = time.time()
            self._start = claim(self.path, self._header["rank"], name=self._name, version=__version__)
            known.add(self.path.parent)
            self._header |= {"traindx": __version__, "start": self._start.number, "created": begun}
        self._write()
        if sync or self._full():
            for ring in list(self._rings.values()):
                ring.sync()
                between()
                self._write()
            for ring in self._rings.values():
                ring.sync()  # usually nothing is left to do; only now every level is known to be on disk
            self._retire()

    def _write(self) -> None:
        for ring in list(self._rings.values()):
            if not ring.housed and self._start is not None:
                ring.settle(self._start.path, to_json({**self._header, "ring": ring.name}))
        for ring in sorted(self._rings.values(), key=lambda r: r.name == "words"):  # last: they count what was written
            ring.write()

    @property
    def settled(self) -> bool:
        """Whether everything queued is known to be on disk."""
        return all(ring.settled for ring in self._rings.values())

    def trim(self, most: int) -> int:
        """Keep what is queued below `most` bytes, dropping the oldest records; gives how many were dropped."""
        lost, waiting = 0, sum(ring.waiting for ring in self._rings.values())
        for ring in sorted(self._rings.values(), key=lambda r: r.waiting, reverse=True):
            while ring.pending and waiting > most and ring.name.endswith(".0"):
                item = ring.pending.popleft()
                waiting -= len(item.payload)
                lost += item.rows
        return lost

    def close(self) -> int:
        """Let go of all files; gives how many records were still queued."""
        lost = 0
        for ring in self._rings.values():
            lost += sum(item.rows for item in ring.pending)
            ring.pending.clear()
            with contextlib.suppress(OSError):  # all that could be synced was
                ring.close()
        return lost

    def _put(self, stream: str, level: int, part: Rows | Span) -> int:
        if isinstance(part, Rows):
            item = Item(Kind.ROWS, pack_rows(part), part.layout, part.last, len(part) if level == 0 else 0)
        else:
            item = Item(Kind.SPAN, pack_span(part), part.layout, part.last)
        self._ring(f"{stream}.{level}").put(item)
        return len(item.payload) + FRAME_EXTRA

    def _ring(self, name: str) -> Ring:
        ring = self._rings.get(name)
        if ring is None:
            roll = self.budget.words if name == "words" else max(4096, self._cap(name) // self.budget.parts)
            ring = self._rings[name] = Ring(name, self._header["stream"], self._define, roll)
        return ring

    def _cap(self, name: str) -> int:
        stream, level = name.split(".")
        sizes: tuple[int, ...] = getattr(self.budget, stream)
        return sizes[int(level)]

    def _full(self) -> bool:
        return any(name != "words" and ring.total + ring.roll > self._cap(name) for name, ring in self._rings.items())

    def _retire(self) -> None:
        """Delete the oldest segments of rings that are full; only now, when every level is known to be on disk."""
        for name, ring in self._rings.items():
            if name == "words":
                continue
            cap = self._cap(name)
            # Once around, what is still needed moves to the new end. A ring that is too full even then has too many kinds of
            # records in it: less of each is kept, and at worst old ones go for good; the reader counts those as lost.
            less, least = self._stale(name, 8), self._stale(name, 8, summed=False)
            for stale, most in ((self._stale(name), cap - ring.roll), (less, cap), (least, cap)):
                for _ in range(len(ring.segments)):
                    if ring.total <= most or not ring.retire_oldest(stale):
                        break
                    ring.write()
                    ring.sync()

    def _stale(self, name: str, haste: int = 1, *, summed: bool = True) -> Callable[[int, int], bool]:
        """Whether records up to number `last` of a layout may go: old enough, and summed up by the next level."""
        stream, level = name.split(".")
        depth = int(level)
        most = int(self._cap(name) / (2 * self._cost(stream))) // haste
        if depth < 2:
            keep = most * (1 if depth == 0 else EVERY)
        else:
            keep = most // _SPAN_ROWS * self._span(stream) * FAN ** (depth - 2)
        above = max(2, depth + 1)

        def stale(layout: int, last: int) -> bool:
            tape = self.tapes.get(layout)
            if tape is None:
                return True
            old = tape.made - 1 - last >= keep
            return old and (not summed or above >= LEVELS or last < tape.covered[above])

        return stale

    def _span(self, stream: str) -> int:
        """Records to a span: at most half of what level 0 is sure to hold, so that a crash finds all of them there."""
        keep = int(self._cap(f"{stream}.0") / (2 * self._cost(stream)))
        return min(SPAN, max(EVERY, keep // 2 // EVERY * EVERY))

    def _cost(self, stream: str) -> float:
        """Bytes on disk of one record of each layout together, their share of the frames included."""
        return sum(size / self.tapes[i].made for i, size in self._bytes[stream].items()) or 1.0
