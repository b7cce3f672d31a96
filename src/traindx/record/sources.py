"""Five lines of source around each place of a finding, and a digest of every project file, kept next to the record.

They are taken by the process that ran the script, while it still runs. Nothing is ever read from a path that a record names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from traindx import opening

FILE = "sources.json"
CODE = "code.json"
AROUND = 2  # lines before and after
_MOST_PLACES, _MOST_FILES, _MOST_BYTES, _LONGEST = 40, 400, 4 << 20, 200
_PLACE = re.compile(r"^(?P<file>[^\n]+\.py):(?P<line>\d+)$")
_LITERAL = re.compile(r"(\"[^\"\n]*\"|'[^'\n]*')")

HIDDEN = "***"  # stands for a secret


def place_of(where: str) -> tuple[str, int] | None:
    """File and line of a place such as model.py:8; None for parameters, modules and columns."""
    found = _PLACE.match(where)
    return (found["file"], int(found["line"])) if found else None


def take(places: Iterable[str], scrubbed: Callable[[str], str], secret: Callable[[str], bool]) -> dict[str, str]:
    """The lines around each place whose file this very process runs, without what looks secret."""
    named = {where: at for where in dict.fromkeys(places) if (at := place_of(where)) is not None}
    names = tuple({Path(file).name for file, _ in named.values()})
    loaded = {os.path.realpath(f) for f in _imported(sys.argv[0]) if f.endswith(names)}
    out: dict[str, str] = {}
    for where, at in named.items():
        if len(out) >= _MOST_PLACES or os.path.realpath(at[0]) not in loaded:
            continue
        try:
            lines = opening.whole(at[0], opening.SOURCE, named=True).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        near = lines[max(0, at[1] - 1 - AROUND) : at[1] + AROUND]
        hidden = [scrubbed(_LITERAL.sub(f"'{HIDDEN}'", text) if secret(text) else text) for text in near]
        out[where] = "\n".join(text[:_LONGEST] for text in hidden)
    return out


def _imported(script: str) -> set[str]:
    """The files of Python that this process has imported, and its script."""
    own = {str(f) for m in list(sys.modules.values()) if (f := getattr(m, "__file__", None))} | {script}
    return {f for f in own if f.endswith(".py")}


def project(script: str, scrubbed: Callable[[str], str], *, text: bool) -> dict[str, dict[str, str]]:
    """The digest of the script and of every imported file next to or below it; with `text` their lines without secrets."""
    home = Path(script).resolve().parent
    own = [Path(f).resolve() for f in _imported(script) if "site-packages" not in f]
    files = sorted({p for p in own if p.is_relative_to(home) and "site-packages" not in p.parts})
    out: dict[str, dict[str, str]] = {"files": {}, **({"text": {}} if text else {})}
    for path in files[:_MOST_FILES]:
        try:
            data = opening.whole(path, opening.SOURCE, named=True)
        except OSError:
            continue
        name = path.relative_to(home).as_posix()
        out["files"][name] = hashlib.sha256(data).hexdigest()
        if text:
            lines = data.decode("utf-8", "replace").splitlines()
            out["text"][name] = "\n".join(scrubbed(line)[:_LONGEST] for line in lines)
    return out


def code(record: str | Path) -> dict[str, dict[str, str]]:
    """What was kept of the project's files; nothing where it is not what we write."""
    told = _read(Path(record) / CODE)
    parts = {key: told.get(key) for key in ("files", "text")}
    return {
        f"code.{key}": {str(k): v for k, v in part.items() if isinstance(v, str)}
        for key, part in parts.items()
        if isinstance(part, dict)
    }


def keep(record: Path, taken: Mapping[str, Any], name: str = FILE) -> None:
    """Put them next to the record, whole or not at all; a disk that refuses costs only this."""
    if not taken:
        return
    beside = record / f".{name}.{os.getpid()}"
    try:
        with os.fdopen(opening.private(beside, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            json.dump(taken, file)
        opening.for_group(beside, record)
        beside.replace(record / name)
    except OSError:
        with suppress(OSError):  # where the folder is a file, say
            beside.unlink()


def kept(record: str | Path) -> dict[str, str]:
    """What was kept next to a record; nothing where it is absent, too large or not what we write."""
    return {k: v for k, v in _read(Path(record) / FILE).items() if isinstance(v, str) and place_of(k) is not None}


def _read(path: Path) -> dict[str, Any]:
    try:
        told = opening.parsed(opening.whole(path, _MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
