"""How the other ranks of this machine end.

Only a parent is told with which signal its child ends. On Linux a sibling can look, too: its pidfd becomes readable at the end,
and until the launcher has reaped it (a tenth of a second) /proc still has its exit status. Elsewhere nothing is known, and the
reader says no more than that the rank stopped writing.
"""

from __future__ import annotations

import os
import select
import threading
import time
from pathlib import Path

from traindx import opening
from traindx.record.endings import note

_CODE = 52 - 3  # field 52 of /proc/PID/stat, counted after the name: the status that a parent's wait would get


def follow(folder: Path) -> Siblings | None:
    """Begin to watch the ranks next to this one; None where that cannot be or need not."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not hasattr(os, "pidfd_open"):
        return None
    local = os.environ.get("LOCAL_RANK")
    if local not in ("0", "1"):  # two are enough: the first watches all others, the second the first
        return None
    others = {pid: rank for pid, (rank, place) in ranks_beside().items() if local == "0" or place == "0"}
    if not others:
        return None
    watcher = Siblings(folder, others)
    watcher.start()
    return watcher


def ranks_beside() -> dict[int, tuple[int, str]]:
    """Processes with the same parent that are ranks of the same launch: rank and local rank of each."""
    try:
        import psutil
    except ModuleNotFoundError:  # in an environment that is not ours
        return {}
    found: dict[int, tuple[int, str]] = {}
    try:
        children = psutil.Process(os.getppid()).children()
    except psutil.Error:
        return {}
    for child in children:
        try:
            own = child.environ() if child.pid != os.getpid() else {}
        except (psutil.Error, OSError):
            continue  # gone, or not ours to read
        if own.get("TORCHELASTIC_RUN_ID") == os.environ["TORCHELASTIC_RUN_ID"] and own.get("RANK", "").isdigit():
            found[child.pid] = int(own["RANK"]), own.get("LOCAL_RANK", "")
    return found


def status(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Exit code of a process that has ended and was not yet reaped, a signal as its negative; None when it cannot be known."""
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] not in ("Z", "X") or len(fields) <= _CODE:
        return None
    return os.waitstatus_to_exitcode(int(fields[_CODE]))


class Siblings(threading.Thread):
    """Waits for the ends of other processes; what goes wrong here costs the note."""

    def __init__(self, folder: Path, others: dict[int, int]) -> None:
        super().__init__(name="traindx-siblings", daemon=True)
        self.folder, self.others = folder, others

    def run(self) -> None:
        poll = select.poll()
        held: dict[int, int] = {}
        for pid in self.others:
            try:
                held[os.pidfd_open(pid)] = pid
            except OSError:
                continue  # it has ended already
        for handle in held:
            poll.register(handle, select.POLLIN)
            kind = opening.mark(handle)  # handles of processes share it
        failures: list[dict[str, int]] = []
        while held:
            for handle, _ in poll.poll():
                pid = held.pop(handle)
                code = status(pid)
                poll.unregister(handle)
                if opening.still(handle, kind):
                    os.close(handle)
                if code:
                    failures.append({"rank": self.others[pid], "exitcode": code, "time": int(time.time())})
                    note(self.folder, failures)
