"""Five lines of source around each place of a finding, kept beside the record.

They are taken by the process that ran the script, while it still runs. Nothing is ever read from a path that a record names.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

FILE = "sources.json"
AROUND = 2  # lines before and after
_MOST_PLACES, _MOST_BYTES, _LONGEST = 40, 256 << 10, 200
_PLACE = re.compile(r"^(?P<file>[^\n]+\.py):(?P<line>\d+)$")
_LITERAL = re.compile(r"(\"[^\"\n]*\"|'[^'\n]*')")


def place_of(where: str) -> tuple[str, int] | None:
    """File and line of a place such as model.py:8; None for parameters, modules and columns."""
    found = _PLACE.match(where)
    return (found["file"], int(found["line"])) if found else None


def take(places: Iterable[str], scrubbed: Callable[[str], str], secret: Callable[[str], bool]) -> dict[str, str]:
    """The lines around each place whose file this very process runs, without what looks secret."""
    own = {str(f) for m in list(sys.modules.values()) if (f := getattr(m, "__file__", None))} | {sys.argv[0]}
    loaded = {os.path.realpath(f) for f in own if f.endswith(".py")}
    out: dict[str, str] = {}
    for where in dict.fromkeys(places):
        at = place_of(where)
        if at is None or len(out) >= _MOST_PLACES or os.path.realpath(at[0]) not in loaded:
            continue
        try:
            lines = Path(at[0]).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        near = lines[max(0, at[1] - 1 - AROUND) : at[1] + AROUND]
        hidden = [scrubbed(_LITERAL.sub("'***'", text) if secret(text) else text) for text in near]
        out[where] = "\n".join(text[:_LONGEST] for text in hidden)
    return out


def keep(record: Path, taken: Mapping[str, str]) -> None:
    """Put them beside the record, whole or not at all; a disk that refuses costs only this."""
    if not taken:
        return
    beside = record / f".{FILE}.{os.getpid()}"
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(taken, file)
        beside.replace(record / FILE)
    except OSError:
        beside.unlink(missing_ok=True)


def kept(record: str | Path) -> dict[str, str]:
    """What was kept beside a record; nothing where it is absent, too large or not what we write."""
    path = Path(record) / FILE
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = told.items() if isinstance(told, dict) else ()
    return {k: v for k, v in pairs if isinstance(v, str) and place_of(k) is not None}
