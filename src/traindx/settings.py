"""What a user may set: `[tool.traindx]` in pyproject.toml or a `traindx.toml`; unknown keys are errors.

[tool.traindx]
ignore = ["PERF"]
fail-on = "warning"
[tool.traindx.rules.GRAD002]
limit = 20.0
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.errors import UsageError

FAIL_ON = ("critical", "warning", "restart", "never")
LARGEST = 2**20  # bytes of a settings file


@dataclass(frozen=True)
class Settings:
    """The user's choices; every field has a working default."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None  # None: the verb's own default
    dir: str | None = None  # where records go
    budget: float | None = 0.01  # share of step time spent on observing; None: everything every step
    replay: bool = True
    capture_batch: bool = False
    live: bool = True  # say what is found while it trains
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: str = ""  # the file they came from

    @property
    def disabled(self) -> bool:
        return os.environ.get("TRAINDX_DISABLE", "") not in ("", "0")


def load(start: Path | None = None, file: Path | None = None) -> Settings:
    """The settings in force: `file` if given, else the nearest traindx.toml or pyproject.toml above `start`."""
    if file is not None:
        return _read(file, required=True)
    for folder in [here := (start or opening.here()).resolve(), *here.parents]:
        for name in ("traindx.toml", "pyproject.toml"):
            path = folder / name
            if path.is_file():
                found = _read(path, required=name == "traindx.toml")
                if found.source:
                    return found
    return Settings()


def _read(path: Path, *, required: bool) -> Settings:
    try:
        table = _table(path)
    except UsageError:
        if not required and not _speaks_of_us(path):
            return Settings()  # somebody else's broken pyproject.toml is not ours to judge
        raise
    tool = table.get("tool", {})
    section = tool.get("traindx") if isinstance(tool, dict) else None
    if section is None and path.name != "pyproject.toml":
        section = table
    if section is None:
        return Settings()
    return _settings(section, path)


def _speaks_of_us(path: Path) -> bool:
    """Whether a file that is no TOML was meant to hold our settings, which must not be lost without a word."""
    try:
        return b"[tool.traindx" in opening.whole(path, LARGEST, named=True)
    except OSError:
        return False


def _table(path: Path) -> dict[str, Any]:
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        raise UsageError(f"{path}: settings are TOML only: a traindx.toml, or [tool.traindx] in pyproject.toml")
    try:
        return tomllib.loads(opening.whole(path, LARGEST, named=True).decode("utf-8-sig"))
    except OSError as why:
        raise UsageError(f"{path}: cannot read the settings: {why.strerror or why}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: settings must be UTF-8 text; this is in another encoding") from None
    except (tomllib.TOMLDecodeError, RecursionError) as why:
        raise UsageError(f"{path}: not valid TOML: {why}") from None


_KEYS: dict[str, tuple[str, tuple[type, ...]]] = {
    "select": ("select", (list,)),
    "ignore": ("ignore", (list,)),
    "fail-on": ("fail_on", (str,)),
    "dir": ("dir", (str,)),
    "budget": ("budget", (int, float)),
    "replay": ("replay", (bool,)),
    "capture-batch": ("capture_batch", (bool,)),
    "live": ("live", (bool,)),
    "rules": ("rules", (dict,)),
}


def _meant(key: str) -> str:
    near = difflib.get_close_matches(key, _KEYS, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def at(path: Path, key: str) -> str:
    """The settings file with the line of a key."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    at = next((i for i, line in enumerate(lines, 1) if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line)), 0)
    return f"{path}:{at}" if at else str(path)


def _settings(section: Any, path: Path) -> Settings:
    if not isinstance(section, dict):
        raise UsageError(f"{path}: [tool.traindx] must be a table")
    values: dict[str, Any] = {"source": str(path)}
    for key, value in section.items():
        if key not in _KEYS:
            raise UsageError(f"{at(path, key)}: unknown setting '{key}'{_meant(key)}; there are {', '.join(sorted(_KEYS))}")
        name, types = _KEYS[key]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise UsageError(f"{at(path, key)}: '{key}' must be {' or '.join(t.__name__ for t in types)}, not {value!r}")
        values[name] = tuple(str(v) for v in value) if isinstance(value, list) else value
    if values.get("fail_on", "never") not in FAIL_ON:
        raise UsageError(f"{at(path, 'fail-on')}: 'fail-on' must be one of {', '.join(FAIL_ON)}, not {values['fail_on']!r}")
    if not 0 <= float(values.get("budget") or 0) <= 1:
        raise UsageError(f"{at(path, 'budget')}: 'budget' is a share of step time between 0 and 1, not {values['budget']!r}")
    bad = [code for code, limits in values.get("rules", {}).items() if not isinstance(limits, dict)]
    if bad:
        raise UsageError(f"{path}: [tool.traindx.rules.{bad[0]}] must be a table of limits")
    return Settings(**values)
