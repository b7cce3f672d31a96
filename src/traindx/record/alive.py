"""Whether a process of this machine is still there: then a run that was killed is known at once."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def here() -> str:
    """Where process numbers mean the same: this start of this machine, and its container; empty where that is not told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def gone(where: object, pid: object) -> bool:
    """Whether process `pid` of a record is no more; False where that cannot be known from here."""
    if not here() or where != here() or not isinstance(pid, int) or not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except OSError as why:
        return isinstance(why, ProcessLookupError)  # another answer: it is there, and somebody else's
    return False
