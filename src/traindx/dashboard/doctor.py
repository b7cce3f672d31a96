"""Judging runs in a process of its own: nobody who looks at a chart waits for a diagnosis, and training keeps its cores."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.children import ours
from traindx.errors import TraindxError
from traindx.plain import say
from traindx.report import runs

BREATH_S = 1.0  # before the first judgement: whoever opened the page sees it painted first
JUDGES = 2  # processes: a run that takes long holds up one of them
MOST_S = 60.0  # for one judgement; then its process is ended and started anew for the next
PATIENCE = 3.0  # a run that grows is judged again after so many times what the last judgement took


@dataclass(frozen=True)
class Answer:
    """A judgement of a run as it stood at `stamp`."""

    stamp: str
    report: dict[str, Any] | None  # traindx.report/1; None when the run could not be read
    stories: list[dict[str, Any]]
    health: dict[str, Any]
    row: dict[str, Any] | None = None  # its line in a table of many
    at: float = 0.0
    seconds: float = 0.0


UNREADABLE: dict[str, Any] = {
    "report": None,
    "stories": [],
    "health": {
        "verdict": "cannot-tell",
        "summary": "cannot be read",
        "severity": None,
        "finding": None,
        "cause": None,
        "alarms": 0,
    },
}


def judged(path: Path, index: int) -> dict[str, Any]:
    """The judgement of the `index`-th run in that place."""
    try:
        found = runs.judged(path)
    except TraindxError:
        return UNREADABLE
    return found[index] if index < len(found) else UNREADABLE


class Doctor:
    """Takes questions, answers them one by one; who asks never waits. Without a process it judges on the spot (tests)."""

    def __init__(self, apart: bool = True) -> None:
        self._apart = apart
        self._children: list[subprocess.Popen[bytes]] = []
        self.most_s = MOST_S
        self._wanted: OrderedDict[str, tuple[Path, int, str]] = OrderedDict()
        self._answers: dict[str, Answer] = {}
        self._news = threading.Condition()
        self._closed = False
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    def ask(self, key: str, path: Path, index: int, stamp: str, *, first: bool = False) -> None:
        """Have that run judged, unless that is done, under way, or was done too recently; `first`: before all others."""
        known = self._answers.get(key)
        if known is not None:
            rested = time.monotonic() - known.at > PATIENCE * known.seconds
            if known.stamp == stamp or not rested:
                return
        if not self._apart:
            self._answers[key] = _answer(stamp, judged(path, index), 0.0)
            return
        with self._news:
            self._wanted[key] = (path, index, stamp)
            if first:
                self._wanted.move_to_end(key, last=False)
            if len(self._threads) < min(JUDGES, len(self._wanted)):
                self._threads.append(threading.Thread(target=self._work, daemon=True, name="traindx-doctor"))
                self._threads[-1].start()
            self._news.notify()

    def answer(self, key: str) -> Answer | None:
        """The last judgement of that run, possibly of an earlier state."""
        return self._answers.get(key)

    def close(self) -> None:
        """End the process."""
        with self._news:
            self._closed = True
            self._end.set()
            self._news.notify_all()
        for child in self._children:
            child.kill()

    def _work(self) -> None:
        child: subprocess.Popen[bytes] | None = None
        while True:
            with self._news:
                while not self._wanted and not self._closed:
                    self._news.wait()
                if self._closed:
                    return
                key, (path, index, stamp) = self._wanted.popitem(last=False)
            if child is None:
                self._end.wait(BREATH_S)
            if self._closed:
                return
            begun = time.monotonic()
            child = child if child is not None and child.poll() is None else self._child()
            said = self._consult(child, path, index)
            if self._closed:
                return
            self._answers[key] = _answer(stamp, said, time.monotonic() - begun)

    def _child(self) -> subprocess.Popen[bytes] | None:
        try:
            command = ours("traindx.dashboard.doctor", str(os.getpid()))
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError:
            return None
        self._children = [*(c for c in self._children if c.poll() is None), child]
        return child

    def _consult(self, child: subprocess.Popen[bytes] | None, path: Path, index: int) -> dict[str, Any]:
        """One question and one answer over pipes; a child that takes too long is ended, and costs only this answer."""
        try:
            if child is None or child.stdin is None or child.stdout is None:
                return UNREADABLE
            child.stdin.write(json.dumps([str(path), index]).encode() + b"\n")
            said, until = bytearray(), time.monotonic() + self.most_s
            while not said.endswith(b"\n"):
                if not select.select([child.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                    child.kill()
                    child.wait()
                    health = {**UNREADABLE["health"], "summary": f"judging it took longer than {self.most_s:g} s"}
                    return {**UNREADABLE, "health": health}
                chunk = os.read(child.stdout.fileno(), 1 << 16)
                if not chunk:
                    return UNREADABLE
                said += chunk
            found: dict[str, Any] = json.loads(said)
            return found
        except (OSError, ValueError):
            return UNREADABLE


def _answer(stamp: str, said: dict[str, Any], seconds: float) -> Answer:
    return Answer(stamp, said["report"], said["stories"], said["health"], said.get("row"), time.monotonic(), seconds)


def main() -> None:
    """The other process: a place per line in, a judgement per line out, until there is nobody to ask."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    threading.Thread(target=_leave_with, args=(int(sys.argv[1]),), daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        path, index = json.loads(line)
        try:
            said = judged(Path(path), index)
        except Exception as bug:  # one run that breaks us must not blind the list to all others
            say(f"could not judge {path}: {type(bug).__name__}: {bug}")
            said = UNREADABLE
        out.write(json.dumps(said) + "\n")
        out.flush()


def _leave_with(parent: int) -> None:
    """End when the server is gone, also in the middle of a long judgement: nobody waits for it any more."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
