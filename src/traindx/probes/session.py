"""A record from its first to its last line: where it lives, what is known about the program, how it ends."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from traindx import __version__
from traindx.record import fresh_dir

_SECRET = re.compile(r"(?i)(key|token|secret|passw|credential|auth)")
_VALUE = re.compile(r"^[A-Za-z0-9+/_=.-]{24,}$")


def rank() -> int:
    """This process among the ranks of a distributed run."""
    return _whole("RANK", 0)


def folder(name: str, chosen: str | os.PathLike[str] | None) -> Path:
    """Where the record goes: as chosen, else $TRAINDX_DIR/NAME-TIME, else ./traindx-runs/NAME-TIME; the same for all ranks."""
    if chosen is not None:
        return Path(chosen)
    base = Path(os.environ.get("TRAINDX_DIR") or "traindx-runs")
    if _whole("WORLD_SIZE", 1) > 1:
        return base / f"{name}-{_launched()}"
    return fresh_dir(base, name)


def _launched() -> str:
    """A stamp that all ranks of one launch share: when their common parent was started."""
    import psutil

    try:
        begun = psutil.Process(os.getppid()).create_time()
    except psutil.Error:
        begun = time.time() // 60 * 60
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(begun))


def _whole(variable: str, default: int) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default


def about(script: str | None, argv: list[str]) -> dict[str, Any]:
    """Facts of the program: file, arguments, versions, commit."""
    versions = {"python": platform.python_version(), "traindx": __version__}
    for module in ("torch", "numpy"):
        version = getattr(sys.modules.get(module), "__version__", None)
        if version is not None:
            versions[module] = str(version)
    facts: dict[str, Any] = {"argv": redacted(argv), "versions": versions, "started": time.time()}
    facts["rank"], facts["world_size"] = rank(), _whole("WORLD_SIZE", 1)
    if script:
        facts["script"] = script
    return facts


def commit(path: str) -> str | None:
    """The commit of the repository a file lives in."""
    try:
        out = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip() or None if out.returncode == 0 else None


def redacted(argv: list[str]) -> list[str]:
    """Arguments without what looks like a secret, by its name or by how random it is.

    >>> redacted(["--lr", "0.1", "--api-key=abc", "--token", "x"])
    ['--lr', '0.1', '--api-key=***', '--token', '***']
    """
    out: list[str] = []
    hide = False
    for word in argv:
        name, eq, value = word.partition("=")
        if hide and not word.startswith("-"):
            out.append("***")
        elif eq and (_SECRET.search(name) or _random(value)):
            out.append(f"{name}=***")
        else:
            out.append("***" if _random(word) else word)
        hide = word.startswith("-") and not eq and bool(_SECRET.search(word))
    return out


def _random(value: str) -> bool:
    """Long, of one piece, and more than 4 bits a character: a key rather than a word or a path."""
    if not _VALUE.match(value) or "/" in value.strip("/"):
        return False
    bits = -sum((n := value.count(c)) / len(value) * math.log2(n / len(value)) for c in set(value))
    return bits > 4.0 and any(c.isdigit() for c in value)
