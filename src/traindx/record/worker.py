"""The record's own thread: takes what the caller queued, writes it at least once a second, and survives every disk.

States, each change being one event and one line on stderr:
    ok        everything is on disk within a second
    dropping  more came in than could be written; the surplus is counted and dropped
    memory    the disk refuses; the newest records are kept in memory (16 MB) and writing is tried again
    off       it refused for ten minutes, or this thread failed; nothing is recorded any more
    closed    done
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from traindx.record import alive
from traindx.record.format import Kind, to_json
from traindx.record.intake import Intake
from traindx.record.shelf import Shelf
from traindx.record.tiers import Budget

FLUSH_S = 0.5  # half of the second that a kill -9 may cost
SYNC_S = 1.0
BEAT_S = 5.0
RETRY_S = 30.0
GIVE_UP_S = 600.0
MOST_QUEUED = 20_000  # records that may wait for this thread
IN_QUEUE = 32 << 20  # bytes of them
IN_MEMORY = 16 << 20  # bytes kept while the disk refuses
MOST_LINES = 6  # on stderr, per process


class Worker:
    """Owns the files of one process. The caller's thread touches `queue`, `dropped`, `nudge` and nothing else."""

    def __init__(
        self, path: Path, rank: int, budget: Budget, name: str, say: Callable[[str], None], every: Mapping[str, float]
    ) -> None:
        self.path = path
        self.queue: deque[Any] = deque()
        self.limit, self.wake = MOST_QUEUED, 0  # the first record wakes the thread; then the size of a record is known
        self.dropped = 0  # by the caller, because the queue was full
        self.lost = 0  # by this thread, because the disk refused
        self.state = "ok"
        self.troubles: list[str] = []
        self.pid = os.getpid()
        self.asked = self.answered = 0  # flushes
        self.how: str | None = None  # set by the caller: leave, and why
        self._say, self._lines = say, 0
        self._flush_s, self._sync_s = every.get("flush", FLUSH_S), every.get("sync", SYNC_S)
        self._retry_s, self._give_up_s = every.get("retry", RETRY_S), every.get("give_up", GIVE_UP_S)
        self._kick = threading.Lock()
        self._kick.acquire()
        self._intake = Intake()
        stream = int.from_bytes(os.urandom(4), "little") or 1
        self.shelf = Shelf(path, {"rank": rank, "stream": stream, "pid": self.pid}, name, budget, self._intake.define)
        self._begun = False
        self._last_step: int | None = None
        self._seen_dropped = self._quiet_turns = self._errors = 0
        self._next_sync = self._next_beat = self._next_try = self._taken = 0.0
        self._trouble_since: float | None = None
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
                if how is not None:
                    self.state = "off" if self.state == "off" else "closed"
                    return
        finally:
            if self.state not in ("closed", "off"):
                self._turn_off("its writer thread ended")
            self.limit = 0
            self.queue.clear()
            self.lost += self.shelf.close()

    def _guarded_turn(self, final: str | None) -> None:
        try:
            self.turn(final)
            self._errors = 0
        except Exception as why:  # a bug of ours must not end the thread at once, nor continue for good
            self._errors += 1
            if self._errors >= 3:
                self._turn_off(f"its writer failed three times ({type(why).__name__}: {why})")

    def turn(self, final: str | None = None) -> None:
        """Take what is queued and write it; `final` says how the run ended and makes these the last words."""
        now = time.monotonic()
        entries = self._drained()
        self._begun |= bool(entries)
        if not self._begun:
            return  # no directory for a run in which nothing happens
        self._take(entries)
        self._watch_drops()
        if final is not None or now >= self._next_beat:
            self._next_beat = now + BEAT_S
            self._word(Kind.BEAT if final is None else Kind.END, self._pulse(final))
        if self.state == "memory" and now < self._next_try and final is None:
            self.lost += self.shelf.trim(IN_MEMORY)
            return
        for _ in range(1 if final is None else 3):  # the last words are tried again at once
            self._commit(now, sync=final is not None or now >= self._next_sync)
            if self.shelf.settled:
                break

    def _take_more(self) -> None:
        """In the middle of a slow commit: what came meanwhile, if it has waited long."""
        if self.how is None and time.monotonic() - self._taken > self._flush_s:
            self._take(self._drained())

    def _drained(self) -> list[Any]:
        return [self.queue.popleft() for _ in range(len(self.queue))]

    def _take(self, entries: list[Any]) -> None:
        """Sort what came into tables and words, in the order it came."""
        self._taken = time.monotonic()
        rows: list[Any] = []
        facts: dict[str, Any] = {}
        for entry in entries:
            if len(entry) == 3:
                rows.append(entry)
                continue
            kind, what = entry
            try:
                if kind == "names":
                    self._take_rows(rows)
                    rows = []
                    self._intake.names(*what)
                elif kind == "fact":
                    facts[str(what[0])] = what[1]
                elif kind == "event":
                    self._word(Kind.EVENTS, [[int(what.step), str(what.kind), dict(what.data), what.time]])
                else:
                    self._word(Kind.NOTES, [str(what)])
            except (TypeError, ValueError, AttributeError, OverflowError) as why:
                self._odd(kind, why)
        self._take_rows(rows)
        for key, value in facts.items():
            self._word(Kind.FACTS, {key: value})

    def _take_rows(self, entries: list[Any]) -> None:
        if not entries:
            return
        tables = self._intake.tables(entries)
        self._last_step = max((int(t.rows.steps[-1]) for t in tables), default=self._last_step)
        for table in tables:
            self.shelf.file(table)
        size = sum(t.layout.row_bytes * len(t.rows) for t in tables) / len(entries)
        self.limit = int(min(MOST_QUEUED, max(64, IN_QUEUE / max(size, 1))))
        self.wake = self.limit // 4

    def _word(self, kind: Kind, value: Any) -> None:
        try:
            payload = to_json(value)
        except (TypeError, ValueError, RecursionError, RuntimeError) as why:
            self._odd(next(iter(value)) if kind == Kind.FACTS else kind.name.lower(), why)
            return
        if not self.shelf.word(kind, payload):
            self._intake.odd["facts or events beyond what a record holds of them"] += 1

    def _odd(self, what: str, why: Exception) -> None:
        self._intake.odd[f"facts or events that cannot be written ({what[:100]}: {type(why).__name__})"] += 1

    def _pulse(self, final: str | None) -> dict[str, Any]:
        made = {str(i): tape.made for i, tape in self.shelf.tapes.items()}
        out = {"time": time.time(), "step": self._last_step, "made": made, "dropped": self.dropped, "lost": self.lost}
        if self._intake.odd:
            out["odd"] = dict(self._intake.odd.most_common(20))
        return {**out, "pid": self.pid, "where": alive.here()} if final is None else {**out, "how": final}

    # -- states -------------------------------------------------------------------------------------------------------

    def _commit(self, now: float, *, sync: bool) -> None:
        try:
            self.shelf.commit(sync=sync, between=self._take_more)
        except OSError as why:
            self._refused(now, why)
            return
        self._next_sync = now + self._sync_s if sync else self._next_sync
        if self._trouble_since is not None:
            self._trouble_since = None
            self._change("ok", f"{self.path}: writing again; {self.lost} records were lost meanwhile")

    def _refused(self, now: float, why: OSError) -> None:
        self._next_try = now + self._retry_s
        self.lost += self.shelf.trim(IN_MEMORY)
        reason = why.strerror or type(why).__name__
        if self._trouble_since is None:
            self._trouble_since = now
            self._change("memory", f"{self.path}: {reason}; the newest records are kept in memory and it is tried again")
        elif now - self._trouble_since >= self._give_up_s:
            self._turn_off(f"{self.path}: {reason}, for {self._give_up_s:.0f} s")

    def _watch_drops(self) -> None:
        if self.dropped > self._seen_dropped:
            self._seen_dropped, self._quiet_turns = self.dropped, 0
            if self.state == "ok":
                self._change("dropping", "records come faster than they can be written; the surplus is left out")
        elif self.state == "dropping":
            self._quiet_turns += 1
            if self._quiet_turns >= 10:
                self._change("ok", f"everything is recorded again; {self.dropped} records were left out so far")

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
        self._tell(f"recording is off: {why}; training continues")
