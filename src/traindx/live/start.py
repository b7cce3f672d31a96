"""Starts the judge next to a program, so that nothing of the program's sees it or waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.children import ours
from traindx.live import stop
from traindx.plain import put, say
from traindx.probes.drive import session
from traindx.settings import Settings

# a shell starts it and leaves: it is no child of the program's, has a session of its own, and Ctrl-C does not reach it
_AWAY = 'exec 3<&0; "$@" <&3 3<&- &'


def wanted(live: bool | None, default: bool = True) -> bool:
    """Whether a judge is to speak: as asked, else as $TRAINDX_LIVE says."""
    if live is not None:
        return live
    given = os.environ.get("TRAINDX_LIVE", "").lower()
    return default if not given else given not in ("0", "no", "false", "off")


class Judge:
    """The judge of one record as its program sees it: started with the first number that is written, told when it is over."""

    def __init__(
        self,
        name: str,
        *,
        lines: str = "warning",
        ending: str = "lines",
        here: str = "",
        addresses: Sequence[str] = (),
        stop_on: str = "",
        chosen: Settings | None = None,
    ) -> None:
        kept = [(k, getattr(chosen, k)) for k in ("select", "ignore", "rules", "severity")] if chosen is not None else []
        self._task: dict[str, Any] = {"name": name, "lines": lines, "ending": ending, "addresses": list(addresses)}
        self._task |= {"stop_on": stop_on, "settings": kept}
        self._here = here  # the folder from which the user sees the record
        self._pipe: int | None = None
        self._mark = (0, 0)  # which pipe that is
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    def begin(self, record: Path) -> None:
        """Start it; on a thread of its own, so that training waits for nothing. On Windows there is no judge."""
        if os.name == "nt":
            return
        shown = record.relative_to(self._here) if self._here and record.is_relative_to(self._here) else record
        task = {**self._task, "record": str(Path(record).absolute()), "shown": str(shown), "pid": self._pid}
        self._thread = threading.Thread(target=self._start, args=(task,), daemon=True, name="traindx-judge")
        self._thread.start()

    def _start(self, task: dict[str, Any]) -> None:
        command = [shutil.which("sh") or "/bin/sh", "-c", _AWAY, "sh", *ours("traindx.live.judge")]
        try:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        except OSError as why:  # no process to be had: training continues, without a judge
            say(f"live findings are off for this run: {why.strerror or why}")
            return
        assert child.stdin is not None
        pipe = os.dup(child.stdin.fileno())
        put(pipe, json.dumps(task).encode() + b"\n")
        child.stdin.close()
        self._mark, self._pipe = opening.mark(pipe), pipe
        child.wait()

    def end(self) -> None:
        """The record is complete."""
        if self._thread is None or os.getpid() != self._pid:
            return
        self._thread.join(5.0)
        if self._pipe is not None and opening.still(self._pipe, self._mark):
            put(self._pipe, b"end\n")
            with contextlib.suppress(OSError):
                os.close(self._pipe)
            self._pipe = None


def beside(
    recorder: Any,
    name: str,
    *,
    live: bool = True,
    quiet: bool = False,
    ending: str = "lines",
    here: str = "",
    addresses: Sequence[str] = (),
    stop_on: str = "",
    chosen: Settings | None = None,
) -> None:
    """Have this record judged while it is written: lines on stderr, word to these addresses, a stop where that is asked for."""
    if stop_on:
        recorder.on_step.append(stop.Obeys(recorder.sink))
    if not (live or addresses or stop_on):
        return
    lines = "" if not live else "critical" if quiet else "warning"
    judge = Judge(name, lines=lines, ending=ending, here=here, addresses=addresses, stop_on=stop_on, chosen=chosen)
    recorder.sink.begun.append(lambda record: judge.begin(record) if session.rank() == 0 else None)
    recorder.sink.over.append(judge.end)
