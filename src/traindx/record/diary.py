"""The case diary: what was tried, concluded and noted about a run, kept in a file beside it. The run itself is not touched."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traindx.errors import EnvironmentFault, UsageError

NAME = "case.traindx-diary"
KINDS = ("note", "trial", "investigation", "conversation")
MOST = 2000  # entries that are read
LONGEST = 4000  # characters of a text


def place(run: str | Path) -> Path:
    """Where the diary of a run lies: inside its folder, or next to its file."""
    path = Path(run)
    return path / NAME if path.is_dir() else path.with_name(f"{path.name}.traindx-diary")


def write(run: str | Path, kind: str, **said: Any) -> Path:
    """Add an entry; the file is made when it is the first."""
    if kind not in KINDS:
        raise UsageError(f"a diary knows {', '.join(KINDS)}; not {kind!r}")
    if not Path(run).exists():
        raise UsageError(f"there is no run {run}")
    entry = {"time": round(time.time(), 1), "kind": kind, **{k: _short(v) for k, v in said.items()}}
    file = place(run)
    try:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")
    except OSError as why:
        raise EnvironmentFault(f"cannot write the diary {file}: {why.strerror or why}") from None
    return file


def entries(run: str | Path) -> list[dict[str, Any]]:
    """The diary of a run, oldest first; lines that are none are left out, and a run without one has an empty list."""
    try:
        lines = place(run).read_text(encoding="utf-8", errors="replace").splitlines()[-MOST:]
    except (OSError, ValueError):
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("kind") in KINDS and isinstance(entry.get("time"), int | float):
            found.append(entry)
    return found


def told(entry: Mapping[str, Any]) -> str:
    """An entry in a sentence."""
    if entry["kind"] == "note":
        return str(entry.get("text", ""))
    if entry["kind"] == "trial":
        return f"trial {entry.get('trial', '')}: {entry.get('result', '')}, {entry.get('reason', '')}"
    return f"{entry['kind']}: {entry.get('verdict', '')}, {entry.get('summary', '')}"


def _short(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) else value
