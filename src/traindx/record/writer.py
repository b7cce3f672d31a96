"""The caller's end of a record: calls that return at once, whatever the disk does."""

from __future__ import annotations

import atexit
import functools
import os
import time as clock
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from traindx.plain import say
from traindx.record.tiers import Budget
from traindx.record.worker import Worker
from traindx.run import Event

CLOSE_S = 2.0  # the longest that closing may keep the caller

_generation = 0  # of processes: one more in each forked child, so that what a parent opened is inert there


def _count_fork() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Writer:
    """Writes one process's part of a run into `dir`, on a thread of its own.

    No call waits, raises or touches the disk; only `close` and `flush` wait, and never longer than they say. What is
    handed over (dicts, arrays, facts) belongs to the writer from then on: do not change it afterwards. In a forked child
    every call does nothing. `state` is ok, dropping, memory, off or closed; `dropped` counts records that were not kept.

    >>> writer = Writer("traindx-runs/demo", rank=0)            # doctest: +SKIP
    >>> writer.names("grad_norm/param", ["0.weight", "0.bias"])  # doctest: +SKIP
    >>> writer.write(0, {"loss/train": 2.3, "grad_norm/param": np.array([1.0, 0.5], np.float32)})  # doctest: +SKIP
    >>> writer.close()                                           # doctest: +SKIP
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],
        *,
        rank: int = 0,
        name: str | None = None,
        budget: Budget | None = None,
        say: Callable[[str], None] = say,
        **every: float,  # flush, sync, retry, give_up: seconds, for tests
    ) -> None:
        path = Path(dir).absolute()  # a later chdir must not move it
        self._worker = worker = Worker(path, rank, budget or Budget(), name or path.name, say, every)
        self._generation = _generation
        self._leave = functools.partial(_leave, weakref.ref(self))
        try:
            worker.thread.start()
        except RuntimeError as why:  # no more threads: then there is no record, and training continues
            worker.state, worker.limit = "off", 0
            worker.troubles.append(f"recording is off: {why}")
            say(worker.troubles[-1])
            return
        weakref.finalize(self, _abandon, worker).atexit = False
        atexit.register(self._leave)

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self._worker.path

    @property
    def state(self) -> str:
        return self._worker.state

    @property
    def dropped(self) -> int:
        """Records that were not kept: the queue was full, or the disk refused for too long."""
        return self._worker.dropped + self._worker.lost

    @property
    def troubles(self) -> tuple[str, ...]:
        """What went wrong with the record so far, in sentences."""
        return tuple(self._worker.troubles)

    def write(self, step: int, values: Mapping[str, Any], time: float | None = None) -> None:
        """Record numbers (series) and one-dimensional arrays (matrices) at a step."""
        worker = self._worker
        waiting = len(worker.queue)
        if waiting >= worker.limit or self._generation != _generation or os.getpid() != worker.pid:
            worker.dropped += worker.how is None
            return
        worker.queue.append((step, clock.time() if time is None else time, values))
        if waiting >= worker.wake:
            worker.nudge()

    def block(self, names: tuple[str, ...], rows: list[tuple[int, float, tuple[float, ...]]]) -> None:
        """Record several steps that have the same series: step, time, values in the order of the names."""
        worker = self._worker
        waiting = len(worker.queue)
        if waiting >= worker.limit or not self._mine:
            worker.dropped += len(rows) if worker.how is None else 0
            return
        worker.queue.append((names, rows, None))
        if waiting >= worker.wake:
            worker.nudge()

    def names(self, signal: str, names: Sequence[str]) -> None:
        """Say how the columns of a matrix are called, from the next record on."""
        self._send("names", (signal, names))

    def fact(self, key: str, value: Any) -> None:
        """Record something known once; a later value of the same key replaces it. Keys of dicts become text."""
        self._send("fact", (key, value))

    def event(self, event: Event) -> None:
        """Record that something happened."""
        self._send("event", event)

    def note(self, text: str) -> None:
        """Record a sentence about what is missing, repaired or guessed."""
        self._send("note", text)

    def flush(self, wait: float = CLOSE_S) -> bool:
        """Have everything written so far put on disk; True if that was done within `wait` seconds."""
        worker = self._worker
        if not self._mine or not worker.thread.is_alive():
            return False
        worker.asked += 1
        asked = worker.asked
        worker.nudge()
        end = clock.monotonic() + wait
        while worker.answered < asked and worker.thread.is_alive() and clock.monotonic() < end:
            clock.sleep(0.002)
        return worker.answered >= asked and worker.state in ("ok", "dropping", "closed")

    def close(self, how: str = "closed", wait: float = CLOSE_S) -> None:
        """End the record, saying how the run ended; waits at most `wait` seconds for the disk. Further calls do nothing."""
        worker = self._worker
        if not self._mine or worker.how is not None:
            return
        worker.how = how
        worker.nudge()
        if worker.thread.is_alive():
            worker.thread.join(wait)
        worker.limit = 0
        atexit.unregister(self._leave)

    def _send(self, kind: str, what: Any) -> None:
        worker = self._worker
        if not self._mine or worker.state in ("off", "closed") or len(worker.queue) >= worker.limit + 10_000:
            return
        worker.queue.append((kind, what))

    @property
    def _mine(self) -> bool:
        return self._generation == _generation and self._worker.own


def _leave(reference: weakref.ref[Writer]) -> None:
    writer = reference()
    if writer is not None:
        writer.close("exit")


def _abandon(worker: Worker) -> None:
    """The caller forgot the writer without closing it: let the thread finish by itself."""
    if worker.own and worker.how is None:
        worker.how = "abandoned"
        worker.nudge()
