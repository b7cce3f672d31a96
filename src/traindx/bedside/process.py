"""A running Python program as it can be seen from outside: what it is, and whether one may attach to it."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from traindx.errors import EnvironmentFault, UsageError

_TORCH = re.compile(r"/libtorch_python\.|/torch/_C\.")
_VERSION = re.compile(r"(?:cpython-3|libpython3\.|/python3\.)(\d+)")
_MY_FILES, _THEIR_FILES = Path("/proc/self/ns/mnt"), "/proc/{}/ns/mnt"
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_JOB = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
OLDEST = 11  # the minor version of Python from which on our own copy of traindx can be imported


@dataclass(frozen=True)
class Process:
    """One process, and what it has loaded."""

    os: psutil.Process
    minor: int | None  # of its Python 3
    torch: bool

    @property
    def pid(self) -> int:
        return int(self.os.pid)

    @property
    def age_s(self) -> float:
        return max(time.time() - self.os.create_time(), 0.1)

    @property
    def share(self) -> float:
        """Of one core, that it has used so far."""
        used = self.os.cpu_times()
        return float(used.user + used.system) / self.age_s

    @property
    def script(self) -> str:
        """The program as somebody would name it."""
        words = self.os.cmdline()
        module = dict(itertools.pairwise(words)).get("-m", "")
        named = [w for w in words[1:] if w.endswith((".py", ".pyz")) or "/" in w]
        return module or Path((named or words or [str(self.pid)])[0]).name

    @property
    def alive(self) -> bool:
        """Whether it is still there, and no corpse."""
        try:
            return bool(self.os.is_running() and self.os.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def written(self) -> Iterator[Path]:
        """The files it has open for writing, its stdout among them where that is a file."""
        yield from (Path(file.path) for file in self.os.open_files() if getattr(file, "mode", "r") != "r")


def seen(pid: int) -> Process:
    """What can be seen of a process; psutil.Error or OSError when it is gone, or may not be looked at."""
    maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    version = _VERSION.search(maps)
    return Process(psutil.Process(pid), int(version[1]) if version else None, bool(_TORCH.search(maps)))


def candidates() -> list[Process]:
    """The Python processes with torch that you may look at, the busiest first, without the workers they have started."""
    found: dict[int, Process] = {}
    for pid in psutil.pids() if sys.platform.startswith("linux") else ():
        try:
            one = seen(pid)
        except (OSError, psutil.Error):
            continue  # gone, or another user's
        if one.torch and one.minor is not None and pid != psutil.Process().pid:
            found[pid] = one
    tops: list[tuple[float, int]] = []
    for pid, one in found.items():
        try:
            above = found.get(one.os.ppid())
            if above is None or above.os.cmdline() != one.os.cmdline():
                tops.append((one.share, pid))
        except psutil.Error:
            continue
    return [found[pid] for _, pid in sorted(tops, reverse=True)]


def attachable(pid: int) -> Process:
    """The process, if one may attach to it; else the reason in one sentence, with the next command."""
    again = f"traindx attach {pid}"
    if not sys.platform.startswith("linux"):
        start = "start it in front of us: traindx run COMMAND, or read its log: traindx diagnose LOG"
        raise EnvironmentFault(f"attaching works on Linux only; {start}")
    try:
        owner, mine = psutil.Process(pid).username(), psutil.Process().username()
        if owner != mine:
            ours = shutil.which("traindx") or "traindx"
            raise EnvironmentFault(f"process {pid} is {owner}'s, and so must we be: sudo -u {owner} {ours} attach {pid}")
        one = seen(pid)
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        inside = _MY_FILES.readlink() != Path(_THEIR_FILES.format(pid)).readlink()
    except (psutil.NoSuchProcess, FileNotFoundError):
        raise UsageError(f"there is no process {pid}; the trainings that run here: traindx attach") from None
    except (psutil.Error, OSError):
        raise forbidden(pid) from None
    if inside:
        inner = status.get("NSpid", str(pid)).split()[-1]
        there = f"docker exec -it CONTAINER traindx attach {inner}"
        raise EnvironmentFault(f"process {pid} runs in a container; install traindx in there, and attach inside it: {there}")
    if one.minor is None or not one.torch:
        lacks = "is no Python program" if one.minor is None else "has not imported torch"
        raise UsageError(f"process {pid} {lacks}; the trainings that run here: traindx attach")
    if one.minor < OLDEST:
        needs = f"runs Python 3.{one.minor}, and we need 3.{OLDEST} or newer"
        raise EnvironmentFault(f"process {pid} {needs}; read its log: traindx diagnose LOG")
    tracer = status.get("TracerPid", "0").strip()
    if tracer != "0":
        raise EnvironmentFault(f"process {pid} is held by a debugger (process {tracer}); end that, then: {again}")
    if one.minor < 14 and not shutil.which("gdb"):
        raise EnvironmentFault(
            f"attaching to Python 3.{one.minor} needs gdb: sudo apt-get install gdb (or dnf, apk), then: {again}"
        )
    return one


def forbidden(pid: int) -> EnvironmentFault:
    """What to do when the system forbids it."""
    todo = "in a container it needs: docker run --cap-add SYS_PTRACE …; its log needs nothing: traindx diagnose LOG"
    try:
        if int(_YAMA.read_text()) in (1, 2):
            todo = f"allow it: sudo sysctl kernel.yama.ptrace_scope=0, then: traindx attach {pid}"
    except (OSError, ValueError):
        pass  # a kernel without that rule
    return EnvironmentFault(f"the system forbids to look into process {pid}; {todo}")


def ranks(one: Process) -> list[Process]:
    """Every rank of the job that this process is one of; refused where some of them are not here."""
    told = one.os.environ()
    world = int(told.get("WORLD_SIZE", "1"))
    if world < 2 or "RANK" not in told:
        return [one]
    found = {told["RANK"]: one}
    for other in candidates():
        theirs = other.os.environ()
        if "RANK" in theirs and all(theirs.get(n) == told.get(n) for n in _JOB):
            found.setdefault(theirs["RANK"], other)
    if len(found) < world:
        here = f"the job of process {one.pid} has {world} ranks, and {len(found)} of them are on this machine"
        raise EnvironmentFault(f"{here}; all or none are attached to. Read its log: traindx diagnose LOG")
    return [found[key] for key in sorted(found, key=int)]
