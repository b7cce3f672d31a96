"""The record's own thread: takes what the caller queued, writes it at least once a second, and survives every disk.

States, each change being one event and one line on stderr:
    ok        everything is on disk within a second
    dropping  more came in than could be written; the surplus is counted and dropped
    memory    the disk refuses; the newest records are kept in memory (16 MB) and writing is tried again
    off       it refused for ten minutes, or this thread failed; nothing is recorded any more
    closed    done
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from traindx import __version__
from traindx.record.format import Kind, Rows, Span, pack_rows, pack_span, to_json
from traindx.record.intake import Intake, Table
from traindx.record.manifest import Start, claim
from traindx.record.ring import Item, Ring
from traindx.record.tiers import EVERY, FAN, LEVELS, SPAN, Budget, Tape
from traindx.run import Event

FLUSH_S = 0.5  # half of the second that a kill -9 may cost
SYNC_S = 1.0
BEAT_S = 5.0
RETRY_S = 30.0
GIVE_UP_S = 600.0
FRAME_BYTES = 1 << 20  # of records in one frame: what one damaged place can cost
MOST_QUEUED = 20_000  # records
IN_QUEUE = 32 << 20  # bytes of records that may wait for this thread
IN_MEMORY = 16 << 20  # bytes kept while the disk refuses
MOST_LINES = 6  # on stderr, per process
_STREAMS = ("narrow", "wide")
_SPAN_ROWS = 7  # a span takes about as many bytes as seven records: four statistics, and marks


def say(text: str) -> None:
    """One line on stderr, past sys.stderr: a lock of it might be held when the interpreter ends."""
    try:
        os.write(2, f"traindx: {text}\n".encode("utf-8", "replace"))
    except OSError:
        return  # nobody listens


class Worker:
    """Owns the files of one process. The caller's thread touches `queue`, `dropped`, `nudge` and nothing else."""

    def __init__(
        self, path: Path, rank: int, budget: Budget, name: str, say: Callable[[str], None], every: Mapping[str, float]
    ) -> None:
        self.path, self.rank, self.budget, self.name = path, rank, budget, name
        self.queue: deque[Any] = deque()
        self.limit, self.wake = MOST_QUEUED, 250  # until the size of a record is known
        self.dropped = 0  # by the caller, because the queue was full
        self.lost = 0  # by this thread, because the disk refused
        self.state = "ok"
        self.troubles: list[str] = []
        self.pid = os.getpid()
        self.start: Start | None = None
        self.asked = self.answered = 0  # flushes
        self.how: str | None = None  # set by the caller: leave, and why
        self._say, self._lines = say, 0
        self._flush_s, self._sync_s = every.get("flush", FLUSH_S), every.get("sync", SYNC_S)
        self._retry_s, self._give_up_s = every.get("retry", RETRY_S), every.get("give_up", GIVE_UP_S)
        self._kick = threading.Lock()
        self._kick.acquire()
        self._intake = Intake()
        self._tapes: dict[int, Tape] = {}
        self._row_bytes = dict.fromkeys(_STREAMS, 0)
        self._stream = int.from_bytes(os.urandom(4), "little") or 1
        self._rings: dict[str, Ring] = {}
        self._created = 0.0
        self._last_step: int | None = None
        self._seen_dropped = 0
        self._quiet_turns = 0
        self._next_sync = self._next_beat = 0.0
        self._next_try = 0.0
        self._trouble_since: float | None = None
        self._errors = 0
        self.thread = threading.Thread(target=self._live, name="traindx-record", daemon=True)

    # -- the caller's side --------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Wake the thread. A bare lock, because releasing one neither waits nor can be half done when a signal comes."""
        try:
            self._kick.release()
        except RuntimeError:
            return  # awake already

    @property
    def own(self) -> bool:
        """False in a forked child, where this thread does not exist."""
        return os.getpid() == self.pid

    # -- the thread's side --------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while self.state != "off":
                self._kick.acquire(timeout=self._flush_s)
                how, asked = self.how, self.asked
                self._guarded_turn(final=how)
                self.answered = max(self.answered, asked)
                if how is not None and self.state != "off":
                    self.lost += sum(item.rows for ring in self._rings.values() for item in ring.pending)
                    self.state = "closed"
                if how is not None:
                    return
        finally:
            if self.state not in ("closed", "off"):
                self._turn_off("its writer thread ended")
            self.limit = 0
            self.queue.clear()
            for ring in self._rings.values():
                with contextlib.suppress(OSError):  # all that could be synced was
                    ring.close()

    def _guarded_turn(self, final: str | None) -> None:
        try:
            self._turn(final)
            self._errors = 0
        except Exception as why:  # a bug of ours must not end the thread at once, nor go on for ever
            self._errors += 1
            if self._errors >= 3:
                self._turn_off(f"its writer failed three times ({type(why).__name__}: {why})")

    def _turn(self, final: str | None) -> None:
        now = time.monotonic()
        self._take(self._drained())
        self._watch_drops()
        if final is not None or now >= self._next_beat:
            self._next_beat = now + BEAT_S
            self._word(Kind.BEAT if final is None else Kind.END, self._pulse(final))
        if self.state == "memory" and now < self._next_try and final is None:
            self._trim()
            return
        for _ in range(1 if final is None else 3):  # the last words are tried again at once
            try:
                self._commit(now, sync=final is not None or now >= self._next_sync)
            except OSError as why:
                self._refused(now, why)
                continue
            self._recovered()
            if all(ring.settled for ring in self._rings.values()):
                break

    def _drained(self) -> list[Any]:
        queue, out = self.queue, []
        for _ in range(len(queue)):
            out.append(queue.popleft())
        return out

    def _take(self, entries: list[Any]) -> None:
        """Sort what came into tables and words, in the order it came."""
        rows: list[Any] = []
        facts: dict[str, Any] = {}
        events: list[Event] = []
        notes: list[str] = []
        for entry in entries:
            if len(entry) == 3:
                rows.append(entry)
                continue
            kind, what = entry
            if kind == "names":
                self._take_rows(rows)
                rows = []
                self._intake.names(*what)
            elif kind == "fact":
                facts[str(what[0])] = what[1]
            elif kind == "event":
                events.append(what)
            else:
                notes.append(str(what))
        self._take_rows(rows)
        self._take_words(facts, events, notes)

    def _take_rows(self, entries: list[Any]) -> None:
        if not entries:
            return
        tables = self._intake.tables(entries)
        self._last_step = max((int(t.rows.steps[-1]) for t in tables), default=self._last_step)
        for table in tables:
            self._file(table)
        size = sum(t.layout.row_bytes * len(t.rows) for t in tables) / len(entries)
        self.limit = int(min(MOST_QUEUED, max(64, IN_QUEUE / max(size, 1))))
        self.wake = self.limit // 4

    def _take_words(self, facts: dict[str, Any], events: list[Event], notes: list[str]) -> None:
        for key, value in facts.items():
            self._word(Kind.FACTS, {key: value})
        if events:
            self._word(Kind.EVENTS, [[e.step, e.kind, dict(e.data), e.time] for e in events])
        if notes:
            self._word(Kind.NOTES, notes)

    def _file(self, table: Table) -> None:
        """Number the records, queue them for level 0, and pass on what the coarser levels make of them."""
        identity = table.layout.identity
        tape = self._tapes.get(identity)
        if tape is None:
            tape = self._tapes[identity] = Tape(table.layout)
            self._row_bytes[table.stream] += table.layout.row_bytes
        rows = tape.number(table.rows)
        most = max(1, FRAME_BYTES // table.layout.row_bytes)
        for a in range(0, len(rows), most):
            self._put(table.stream, 0, rows.part(a, a + most))
        for level, part in tape.add(rows, self._span(table.stream)):
            self._put(table.stream, level, part)

    def _put(self, stream: str, level: int, part: Rows | Span) -> None:
        if isinstance(part, Rows):
            item = Item(Kind.ROWS, pack_rows(part), part.layout, part.last, len(part) if level == 0 else 0)
        else:
            item = Item(Kind.SPAN, pack_span(part), part.layout, part.last)
        self._ring(f"{stream}.{level}").put(item)

    def _word(self, kind: Kind, value: Any) -> None:
        try:
            payload = to_json(value)
        except (TypeError, ValueError, RecursionError, RuntimeError) as why:
            what = next(iter(value)) if isinstance(value, dict) and value else kind.name.lower()
            self._intake.odd[f"facts or events that cannot be written ({what}: {type(why).__name__})"] += 1
            return
        ring = self._ring("words")
        if kind in (Kind.FACTS, Kind.EVENTS, Kind.NOTES) and ring.total > self.budget.words:
            self._intake.odd["facts or events beyond the first 32 MB"] += 1
            return
        ring.put(Item(kind, payload))

    def _pulse(self, final: str | None) -> dict[str, Any]:
        made: dict[str, int] = {str(i): tape.made for i, tape in self._tapes.items()}
        out = {"time": time.time(), "step": self._last_step, "made": made, "dropped": self.dropped, "lost": self.lost}
        if self._intake.odd:
            out["odd"] = dict(self._intake.odd)
        return out if final is None else {**out, "how": final}

    # -- files --------------------------------------------------------------------------------------------------------

    def _ring(self, name: str) -> Ring:
        ring = self._rings.get(name)
        if ring is None:
            cap = self._cap(name)
            ring = Ring(name, self._stream, self._intake.define, max(4096, cap // self.budget.parts))
            self._rings[name] = ring
            if self.start is not None:
                self._house(ring, self.start)
        return ring

    def _cap(self, name: str) -> int:
        if name == "words":
            return 16 * self.budget.words  # one file: words are few, and a full one refuses more
        stream, level = name.split(".")
        sizes: tuple[int, ...] = getattr(self.budget, stream)
        return sizes[int(level)]

    def _house(self, ring: Ring, start: Start) -> None:
        header = {
            "traindx": __version__,
            "rank": self.rank,
            "start": start.number,
            "ring": ring.name,
            "stream": self._stream,
            "pid": self.pid,
            "created": self._created,
        }
        ring.settle(start.path, to_json(header))

    def _commit(self, now: float, sync: bool) -> None:
        """Everything pending onto disk; OSError when the disk refuses any of it."""
        if self.start is None:
            self._created = time.time()
            self.start = claim(self.path, self.rank, name=self.name, version=__version__)
            for ring in self._rings.values():
                self._house(ring, self.start)
        rings = sorted(self._rings.values(), key=lambda r: r.name == "words")  # last: they count what was written
        for ring in rings:
            ring.write()
        if sync:
            self._next_sync = now + self._sync_s
            for ring in rings:
                ring.sync()
            self._retire()

    def _retire(self) -> None:
        """Delete the oldest segments of rings that are full; only now, when every level is known to be on disk."""
        for name, ring in self._rings.items():
            if name == "words":
                continue
            stream, level = name.split(".")
            while ring.total + ring.roll > self._cap(name):
                if not ring.retire_oldest(self._stale(stream, int(level))):
                    break
                ring.write()
                ring.sync()

    def _stale(self, stream: str, level: int) -> Callable[[int, int], bool]:
        """Whether records up to number `last` of a layout may go: old enough, and summed up by the next level."""
        most = self._cap(f"{stream}.{level}") // (2 * max(1, self._row_bytes[stream]))
        if level < 2:
            keep = most * (1 if level == 0 else EVERY)
        else:
            keep = most // _SPAN_ROWS * self._span(stream) * FAN ** (level - 2)
        above = max(2, level + 1)

        def stale(layout: int, last: int) -> bool:
            tape = self._tapes.get(layout)
            if tape is None:
                return True
            return tape.made - 1 - last >= keep and (above >= LEVELS or last < tape.covered[above])

        return stale

    def _span(self, stream: str) -> int:
        """Records to a span: at most half of what level 0 is sure to hold, so that a crash finds all of them there."""
        keep = self._cap(f"{stream}.0") // (2 * max(1, self._row_bytes[stream]))
        return int(min(SPAN, max(EVERY, keep // 2 // EVERY * EVERY)))

    # -- states -------------------------------------------------------------------------------------------------------

    def _watch_drops(self) -> None:
        if self.dropped > self._seen_dropped:
            self._seen_dropped, self._quiet_turns = self.dropped, 0
            if self.state == "ok":
                self._change("dropping", "records come faster than they can be written; the surplus is left out")
        elif self.state == "dropping":
            self._quiet_turns += 1
            if self._quiet_turns >= 10:
                self._change("ok", f"everything is recorded again; {self.dropped} records were left out so far")

    def _refused(self, now: float, why: OSError) -> None:
        self._next_try = now + self._retry_s
        self._trim()
        reason = why.strerror or type(why).__name__
        if self._trouble_since is None:
            self._trouble_since = now
            self._change("memory", f"{self.path}: {reason}; the newest records are kept in memory and it is tried again")
        elif now - self._trouble_since >= self._give_up_s:
            self._turn_off(f"{self.path}: {reason}, for {self._give_up_s:.0f} s")

    def _recovered(self) -> None:
        if self._trouble_since is not None:
            self._trouble_since = None
            self._change("ok", f"{self.path}: writing again; {self.lost} records were lost meanwhile")

    def _trim(self) -> None:
        """Keep what waits in memory below its bound, dropping the oldest records first."""
        waiting = sum(ring.waiting for ring in self._rings.values())
        for ring in sorted(self._rings.values(), key=lambda r: r.waiting, reverse=True):
            while ring.pending and waiting > IN_MEMORY and ring.name.endswith(".0"):
                item = ring.pending.popleft()
                waiting -= len(item.payload)
                self.lost += item.rows

    def _change(self, state: str, why: str) -> None:
        before, self.state = self.state, state
        self._tell(why)
        data = {"from": before, "to": state, "why": why, "dropped": self.dropped, "lost": self.lost}
        self._word(Kind.EVENTS, [[self._last_step or 0, "record", data, time.time()]])

    def _tell(self, text: str) -> None:
        self._lines += 1
        if self._lines <= MOST_LINES:
            self.troubles.append(text)
            self._say(text)

    def _turn_off(self, why: str) -> None:
        self.state = "off"
        self.limit = 0
        self._tell(f"recording is off: {why}; training goes on")
        for ring in self._rings.values():
            ring.pending.clear()
