"""A record from its first to its last line: where it lives, what is known about the program, how it ends."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from traindx import __version__


def folder(name: str, chosen: str | os.PathLike[str] | None) -> Path:
    """Where the record goes: as chosen, else $TRAINDX_DIR/NAME-TIME, else ./traindx-runs/NAME-TIME."""
    if chosen is not None:
        return Path(chosen)
    base = Path(os.environ.get("TRAINDX_DIR") or "traindx-runs")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = base / f"{name}-{stamp}"
    for again in range(2, 1000):
        if not path.exists():
            return path
        path = base / f"{name}-{stamp}-{again}"
    return path


def about(script: str | None, argv: list[str]) -> dict[str, Any]:
    """Facts of the program: file, arguments, versions, commit."""
    versions = {"python": platform.python_version(), "traindx": __version__}
    for module in ("torch", "numpy"):
        version = getattr(sys.modules.get(module), "__version__", None)
        if version is not None:
            versions[module] = str(version)
    facts: dict[str, Any] = {"argv": argv, "versions": versions, "started": time.time()}
    if script:
        facts["script"] = script
    return facts


def commit(path: str) -> str | None:
    """The commit of the repository a file lives in."""
    try:
        out = subprocess.run(
            ["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=2, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip() or None if out.returncode == 0 else None
