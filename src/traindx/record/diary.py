"""The case diary: what was tried, concluded and noted about a run, kept in a file next to it. The run itself is not touched."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.errors import EnvironmentFault, UsageError
from traindx.record.manifest import MANIFEST

NAME = "case.traindx-diary"
KINDS = ("note", "trial", "investigation", "conversation")
MOST = 2000  # entries that are read
MOST_BYTES = 8 << 20  # of its end
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
        with os.fdopen(opening.private(file, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")
        if (file.parent / MANIFEST).is_file():
            opening.for_group(file, file.parent)
    except OSError as why:
        raise EnvironmentFault(f"cannot write the diary {file}: {why.strerror or why}") from None
    return file


def entries(run: str | Path) -> list[dict[str, Any]]:
    """The diary of a run, oldest first; lines that are none are left out, and a run without one has an empty list."""
    try:
        lines = opening.end(place(run), MOST_BYTES).decode("utf-8", "replace").splitlines()[-MOST:]
    except (OSError, ValueError):
        return []
    found = []
    for line in lines:
        try:
            entry = opening.parsed(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("kind") in KINDS and _when(entry.get("time")):
            found.append(entry)
    return found


def _when(value: Any) -> bool:
    """Whether it is a moment that a calendar has."""
    return isinstance(value, int | float) and 0 <= value < 1e11


def told(entry: Mapping[str, Any]) -> str:
    """An entry in a sentence."""
    if entry["kind"] == "note":
        return str(entry.get("text", ""))
    if entry["kind"] == "trial":
        return f"trial {entry.get('trial', '')}: {entry.get('result', '')}, {entry.get('reason', '')}"
    return f"{entry['kind']}: {entry.get('verdict', '')}, {entry.get('summary', '')}"


def _short(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) else value
