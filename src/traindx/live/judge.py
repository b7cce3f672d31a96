"""The judge: a process of its own that follows one record, speaks when a finding is settled, and outlives the program.

Its task comes as a line of JSON on stdin. A second line, or the end of the program, ends it: what was found in a program that
died without a word is then told in full, for nobody else can.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FIRST = 20  # updates before the first look,
FIRST_S = 2.0  # or so many seconds
CREDIT_S = 2.5  # of CPU time that looks may take in all,
SHARE = 0.012  # besides this share of one core
POLL_S = 0.25  # between two questions whether there is news, at first; then
SLOW_S = 1.0
APART_S = 0.5  # between two looks, at least,
GROWN = 0.05  # and the run must have grown by this share, or
LATE_S = 10.0  # so many seconds must have passed
LOST_S = 300.0  # a record that never appears is given up
AHEAD_S = 3.0  # how far ahead of the ranks a stop is set


@dataclass(frozen=True)
class Task:
    """What a judge is to follow, and whom it tells."""

    record: str
    shown: str  # the record's path as the user knows it
    pid: int  # of the program
    name: str
    lines: str = "warning"  # the least severity that is told on stderr; "" for none
    ending: str = "lines"  # at the end: `lines` for what was not yet told, the `page`, or nothing, for the program prints it
    # (`own`: but not if it was killed) or the process `above` it
    addresses: tuple[str, ...] = ()
    stop_on: str = ""
    settings: tuple[tuple[str, Any], ...] = ()  # select, ignore, rules


class Judge:
    """Looks at a record again and again."""

    def __init__(self, task: Task, speak: Callable[[str], None], over: Callable[[], bool] = lambda: False) -> None:
        from traindx.alerts import Alerts, everyone
        from traindx.finding import Severity
        from traindx.live.settled import Settled
        from traindx.settings import Settings

        self.task, self.speak, self.over = task, speak, over
        self.settings = Settings(**dict(task.settings))
        self.settled = Settled()
        self.least = Severity(task.lines) if task.lines else None
        self.alerts = Alerts(everyone(task.addresses)) if task.addresses else None
        self.path = Path(task.record)
        self._follower: Any = None
        self._begun = self._looked = time.monotonic()
        self._fixed = time.process_time()
        self._first: float | None = None  # when the record appeared
        self._judged = -1  # the step of the last look
        self._stopped = False

    def turn(self) -> bool:
        """Read what is new and look at it if it is time; whether to continue."""
        from traindx.errors import TraindxError
        from traindx.record import follow

        try:
            if self._follower is None:
                self._follower = follow(self.path)
                self._first = time.monotonic()
            elif not self._follower.poll():
                return True
        except (OSError, TraindxError):
            return self._follower is not None or time.monotonic() - self._begun < LOST_S
        if self._due():
            self.look()
        return True

    @property
    def followed(self) -> Any:
        """The run as far as it was read; None before it is there."""
        return self._follower.run if self._follower is not None else None

    def _due(self) -> bool:
        now = time.monotonic()
        spent = time.process_time() - self._fixed
        if spent > CREDIT_S + SHARE * (now - self._begun) or now - self._looked < APART_S:
            return False
        steps = self._follower.run.steps
        end = steps[1] if steps else 0
        enough = int(self._follower.run.fact("attached") or 0) + FIRST - 1
        if self._judged < enough <= end:
            return True
        if self._judged < 0:
            return now - (self._first or now) >= FIRST_S
        return end > self._judged and (end - self._judged >= max(1, GROWN * self._judged) or now - self._looked >= LATE_S)

    def look(self, *, last: bool = False, ended: str | None = None) -> Any:
        """Judge the run as it is; tell what is settled, send an alert, set the stop."""
        from traindx.diagnosis import diagnose
        from traindx.live import lines

        run = self._run()
        if ended is not None:
            run = run.with_(facts={"ended": ended})
        found = diagnose(run, self.settings)
        if not last and self.over():
            return found  # it ended meanwhile, and its own page may stand there already: `end` tells what is left
        before, self._looked = self._looked, time.monotonic()
        step = run.steps[1] if run.steps else 0
        pace = max(0, step - self._judged) / max(self._looked - before, 0.1)
        self._judged = step
        for word in self.settled.look(found, last=last):
            text = lines.told(word, self.task.shown)
            if self.least is not None and word.story.severity >= self.least:
                self.speak(text)
            if self.alerts is not None and not word.back:
                title = f"traindx: {found.verdict.replace('-', ' ')}"
                self.alerts.tell(word.story.root.code, title, text.removeprefix("traindx · "))
            if self.task.stop_on and not word.back and not last and stops(word):
                self._stop(step + 5 + int(AHEAD_S * pace), text)
        return found

    def _run(self) -> Any:
        from traindx.record import read
        from traindx.record.manifest import starts

        several = len({s.rank for s in starts(self.path)}) > 1
        return read(self.path) if several else self._follower.run

    def _stop(self, step: int, why: str) -> None:
        from traindx.live import stop

        if not self._stopped:
            self._stopped = True
            stop.order(self.path, step, why)
            self.speak(f"traindx · the run is stopped after step {step}, as --stop-on asks")

    def end(self, *, alive: bool) -> None:
        """The program closed its record, or is gone: a last look, and its page if it can print none itself."""
        from traindx.errors import TraindxError

        with contextlib.suppress(OSError, TraindxError):
            if self._follower is None:
                from traindx.record import follow

                self._follower = follow(self.path)
            self._follower.poll()
            silent = not alive and self._follower.run.fact("ended") in ("running", "killed")
            if silent or self.task.ending == "page":
                self._page(killed=silent)
            elif self.task.ending == "lines" or self.alerts is not None:
                if self.task.ending != "lines":
                    self.least = None
                self.look(last=True)
        if self.alerts is not None:
            self.alerts.wait(30.0)

    def _page(self, *, killed: bool) -> None:
        from traindx.report.text import plain

        self.least = None  # the page has it all
        found = self.look(last=True, ended="killed" if killed else None)
        if self.task.lines and self.task.ending != "above":
            what = "the program ended without a word, after step" if killed else "the run ended at step"
            self.speak(f"traindx · {what} {self._judged}\n{plain(found).rstrip()}")
        if killed and self.alerts is not None:
            self.alerts.tell("killed", "traindx: the run was killed", f"{self.task.name} stopped at step {self._judged}")


def stops(word: Any) -> bool:
    """Whether a word is reason enough to stop a run that asked for it: an exact critical fact, or a restart."""
    from traindx.finding import Severity
    from traindx.live.settled import exact

    if word.story.severity < Severity.CRITICAL:
        return False
    return exact(word.story.root) or word.diagnosis.verdict == "restart"


class Program:
    """The program that is watched: whether it is there, and whether it has said that its record is complete."""

    def __init__(self, pid: int, stdin: int = 0) -> None:
        self._pid, self._stdin = pid, stdin
        self._poll = select.poll()
        self._poll.register(stdin, select.POLLIN)
        self._handle: int | None = None
        self.alive, self._over = True, False
        try:
            self._handle = os.pidfd_open(pid)
            self._poll.register(self._handle, select.POLLIN)
        except (OSError, AttributeError):
            self._check()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether the program has ended or closed its record."""
        self._over = self._over or self._ends_within(seconds)
        return self._over

    def _ends_within(self, seconds: float) -> bool:
        for fd, _ in self._poll.poll(1000 * seconds):
            if fd == self._handle:
                self.alive = False
                return True
            if os.read(fd, 100):
                return True
            self._poll.unregister(fd)  # nobody holds the other end: only its death can tell now
        if self._handle is None:
            self._check()
        return not self.alive

    def _check(self) -> None:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            self.alive = False
        except OSError:
            return


def told(given: dict[str, Any]) -> Task:
    """The task as it comes out of JSON, where every tuple has become a list."""
    settings = tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in given["settings"])
    return replace(Task(**given), addresses=tuple(given["addresses"]), settings=settings)


def main() -> None:
    """The process behind `start.judge`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    task = told(json.loads(_line(0)))
    program = Program(task.pid)

    from traindx.live.lines import Stderr

    speak = Stderr() if task.lines else lambda text: None
    if task.lines == "warning":
        speak(f"traindx · watching {task.name} · record in {task.shown} · to look now: traindx now {task.shown}")
    judge = Judge(task, speak, over=lambda: program.wait(0))
    begun = time.monotonic()
    while not program.wait(POLL_S if time.monotonic() - begun < 30 else SLOW_S):
        if not judge.turn():
            return
    judge.end(alive=program.alive)


def _line(fd: int) -> bytes:
    """One line, and no byte more."""
    out = bytearray()
    while (byte := os.read(fd, 1)) not in (b"", b"\n"):
        out += byte
    return bytes(out)


if __name__ == "__main__":
    main()
