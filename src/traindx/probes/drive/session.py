"""A record from its first to its last line: where it lives, what is known about the program, how it ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from traindx import settings
from traindx.probes.read.machine import surroundings
from traindx.record import fresh_dir


def rank() -> int:
    """This process among the ranks of a distributed run: as its launcher says, else as its process group does."""
    return _placed()[0]


def world() -> int:
    """How many ranks there are."""
    return _placed()[1]


def share(budget: float | None) -> float | None:
    """What observing may cost in this rank: half of it next to rank 0, for the others see the same weights."""
    return budget if budget is None or rank() == 0 else budget / 2


def _placed() -> tuple[int, int]:
    if _whole("WORLD_SIZE", 1) > 1 or "torch" not in sys.modules:
        return _whole("RANK", 0), _whole("WORLD_SIZE", 1)
    from traindx.probes.read.machine.replicas import place

    return place()


def folder(name: str, chosen: str | os.PathLike[str] | None) -> Path:
    """Where the record goes: as chosen, else NAME-TIME in the folder of records; the same for all ranks."""
    if chosen is not None:
        return Path(chosen)
    return below(settings.folder(), name)


def below(base: Path, name: str) -> Path:
    """A folder for the record among others."""
    return base / f"{name}-{_launched()}" if world() > 1 else fresh_dir(base, name)


def _launched() -> str:
    """A stamp that all ranks of one launch share: when their common parent was started, and its number."""
    parent = os.getppid()
    try:  # field 22, in ticks since the machine started
        ticks = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19])
        booted = int(Path("/proc/stat").read_text().partition("btime ")[2].split()[0])
        begun = booted + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        begun = time.time() // 60 * 60
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(begun))}-{parent}"


def _whole(variable: str, default: int) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default


def about(script: str | None, argv: list[str]) -> dict[str, Any]:
    """Facts of the program: file, arguments, versions, commit, place among the ranks."""
    home = Path(script).parent if script and Path(script).exists() else Path.cwd()
    facts: dict[str, Any] = {
        "argv": surroundings.redacted(argv),
        "folder": surroundings.scrubbed(str(Path.cwd())),
        "versions": surroundings.versions(),
        "started": time.time(),
        "rank": rank(),
        "world_size": world(),
    }
    if script:
        facts["script"] = script
    commit = surroundings.commit_of(home)
    if commit is not None:
        facts["git.commit"] = commit
    return facts


def told(error: BaseException) -> dict[str, Any]:
    """What ended the run, without what looks secret in its message; the place is the last line of the user's own, if any."""
    from traindx.probes.read.common import sites  # with torch, which is there when something was recorded

    last = None
    tb = error.__traceback__
    while tb is not None:
        if last is None or sites.users(tb.tb_frame.f_code.co_filename):
            last = tb
        tb = tb.tb_next
    place = {"file": last.tb_frame.f_code.co_filename, "line": last.tb_lineno} if last is not None else {}
    return {"type": type(error).__name__, "message": surroundings.scrubbed(_said(error))[:500], **place}


def _said(error: BaseException) -> str:
    """The text of an error of the script's, whose class may do anything when it is asked for it."""
    try:
        return str(error)
    except (Exception, SystemExit):
        return ""
