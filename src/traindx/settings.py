"""What a user may set, in layers: site, user, project, environment, command line. The nearer one wins; unknown keys are errors.

fail-on = "warning"                                     in traindx.toml, or below [tool.traindx] in pyproject.toml
severity = {GRAD002 = "info"}
[ignore]
PERF009 = {until = "2027-01-31", why = "the new loader comes in January"}
[rules.GRAD002]
limit = 20.0
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.errors import UsageError

FAIL_ON = ("critical", "warning", "restart", "never")
SEVERITIES = ("critical", "warning", "info")
MODES = ("private", "group")
LARGEST = 2**20  # bytes of a settings file
DEEPEST = 5  # files that extend one another
SITE = Path("/etc/traindx.toml")


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
    alerts: tuple[str, ...] = ()  # addresses that get a message for each new finding
    sync: str | None = None  # address that records are copied to
    mode: str = "private"  # or group: who may read records
    retention: Mapping[str, Any] = field(default_factory=dict)  # what `traindx prune` does without options
    severity: Mapping[str, str] = field(default_factory=dict)  # code → how loud its findings are
    reasons: Mapping[str, str] = field(default_factory=dict)  # code → why it is ignored
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: str = ""  # the nearest file they came from
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)  # key → where it was set
    expired: tuple[str, ...] = ()  # sentences on what is no longer ignored

    @property
    def disabled(self) -> bool:
        return os.environ.get("TRAINDX_DISABLE", "") not in ("", "0")

    def share_records(self, *, samples: bool) -> None:
        """Let the group read what this process and its children record, if it may; kept samples stay private."""
        if self.mode == "group" and not samples:
            os.environ["TRAINDX_RECORDS"] = "group"


def load(
    start: Path | None = None, file: Path | None = None, *, warn: Callable[[str], None] | None = None, today: Any = None
) -> Settings:
    """The settings in force. `file` stands for the nearest traindx.toml or pyproject.toml above `start`.

    With `warn`, a bad site or user file is told to it and left out: it must not stop a training.
    """
    merged: dict[str, tuple[Any, str]] = {}
    for common in (SITE, _user_file()):
        try:
            if common is not None and common.is_file():
                _over(merged, _layer(common, required=True))
        except (UsageError, OSError) as why:
            if warn is None:
                raise UsageError(str(why)) from None
            warn(f"{why}; it was left out")
    nearest = _layer(file, required=True) if file is not None else _nearest(start)
    _over(merged, nearest)
    _over(merged, dict(_environment()))
    source = str(file) if file is not None else next((re.sub(r":\d+$", "", where) for _, where in nearest.values()), "")
    return _settings(merged, source, today or datetime.datetime.now().astimezone().date())


def folder() -> Path:
    """Where records lie when no folder is named: $TRAINDX_DIR, `dir` of the settings, or ./traindx-runs."""
    return Path(os.environ.get("TRAINDX_DIR") or load(warn=lambda _: None).dir or "traindx-runs")


def _user_file() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "traindx.toml"
    except RuntimeError:  # nobody's home
        return None


def _nearest(start: Path | None) -> dict[str, tuple[Any, str]]:
    for place in [here := (start or opening.here()).resolve(), *here.parents]:
        for name in ("traindx.toml", "pyproject.toml"):
            path = place / name
            if path.is_file() and (found := _layer(path, required=name == "traindx.toml")):
                return found
    return {}


def _environment() -> Iterator[tuple[str, tuple[Any, str]]]:
    given = os.environ
    if given.get("TRAINDX_DIR"):
        yield "dir", (given["TRAINDX_DIR"], "$TRAINDX_DIR")
    if given.get("TRAINDX_LIVE"):
        yield "live", (given["TRAINDX_LIVE"] not in ("0", "no", "false", "off"), "$TRAINDX_LIVE")
    if given.get("TRAINDX_ALERT"):
        yield "alerts", (given["TRAINDX_ALERT"].split(), "$TRAINDX_ALERT")


# -- one file


def _layer(path: Path, *, required: bool, depth: int = 0) -> dict[str, tuple[Any, str]]:
    """The checked keys of a file, with what it extends below them: key → value and where it stands."""
    section = _section(path, required=required)
    if section is None:
        return {}
    below: dict[str, tuple[Any, str]] = {}
    extended = section.pop("extends", [])
    if not isinstance(extended, str | list) or not all(isinstance(e, str) for e in extended):
        raise UsageError(f"{at(path, 'extends')}: 'extends' is a path or a list of paths, not {extended!r}")
    for name in [extended] if isinstance(extended, str) else extended:
        if "://" in name:
            raise UsageError(f"{at(path, 'extends')}: 'extends' takes paths on this machine, not addresses: {name}")
        if depth >= DEEPEST:
            raise UsageError(f"{at(path, 'extends')}: more than {DEEPEST} files extend one another; is it a circle?")
        if not (wanted := path.parent / Path(name).expanduser()).is_file():
            raise UsageError(f"{at(path, 'extends')}: there is no file {name}")
        other = _layer(wanted, required=True, depth=depth + 1)
        for key in other.keys() & below.keys() - section.keys():
            if other[key][0] != below[key][0] and not isinstance(other[key][0], dict | list):
                one, two = below[key], other[key]
                told = f"{one[1]} says {one[0]!r} and {two[1]} says {two[0]!r}"
                raise UsageError(f"{at(path, 'extends')}: two files contradict each other on '{key}': {told}; say which here")
        _over(below, other)
    _over(below, {key: (_checked(key, value, path), at(path, key)) for key, value in section.items()})
    return below


def _section(path: Path, *, required: bool) -> dict[str, Any] | None:
    try:
        table = _table(path)
    except UsageError:
        if not required and not _speaks_of_us(path):
            return None  # somebody else's broken pyproject.toml is not ours to judge
        raise
    tool = table.get("tool", {})
    section = tool.get("traindx") if isinstance(tool, dict) else None
    if section is None and path.name != "pyproject.toml":
        section = table
    if section is not None and not isinstance(section, dict):
        raise UsageError(f"{path}: [tool.traindx] must be a table")
    return section


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


KEYS: dict[str, tuple[type, ...]] = {
    "select": (list,),
    "ignore": (list, dict),
    "fail-on": (str,),
    "dir": (str,),
    "budget": (int, float),
    "replay": (bool,),
    "capture-batch": (bool,),
    "live": (bool,),
    "alerts": (list,),
    "sync": (str,),
    "records": (dict,),
    "retention": (dict,),
    "severity": (dict,),
    "rules": (dict,),
}
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
_BYTES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_INNER = {"records": ("mode",), "retention": ("older", "max-size", "keep-sick")}


def _near(key: str, known: Any) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f" (did you mean '{near[0]}'?)" if near else ""
    return f"'{key}'{meant}; there are {', '.join(sorted(known))}"


def at(path: Path, key: str) -> str:
    """The settings file with the line of a key."""
    try:
        lines = opening.whole(path, LARGEST, named=True).decode("utf-8-sig", "replace").splitlines()
    except OSError:
        lines = []
    mark = re.compile(rf"\s*([\"']?{re.escape(key)}[\"']?\s*=|\[(tool\.traindx\.)?{re.escape(key)}[\].])")
    found = next((i for i, line in enumerate(lines, 1) if mark.match(line)), 0)
    return f"{path}:{found}" if found else str(path)


def _checked(key: str, value: Any, path: Path) -> Any:
    """The value of a key, or an error with the file and the line."""

    def wrong(why: str, what: str = key) -> UsageError:
        return UsageError(f"{at(path, what)}: {why}")

    if key not in KEYS:
        raise wrong(f"unknown setting {_near(key, (*KEYS, 'extends'))}")
    if not any(isinstance(value, kind) for kind in KEYS[key]) or (value is True or value is False) != (bool in KEYS[key]):
        raise wrong(f"'{key}' must be {' or '.join(t.__name__ for t in KEYS[key])}, not {value!r}")
    for inner in value if key in _INNER else ():
        if inner not in _INNER[key]:
            raise wrong(f"unknown setting {_near(inner, _INNER[key])}", inner)
    if key == "fail-on" and value not in FAIL_ON:
        raise wrong(f"'fail-on' must be one of {', '.join(FAIL_ON)}, not {value!r}")
    if key == "budget" and not 0 <= float(value) <= 1:
        raise wrong(f"'budget' is a share of step time between 0 and 1, not {value!r}")
    if key == "records" and value.get("mode", "private") not in MODES:
        raise wrong(f"'mode' of records is {' or '.join(MODES)}, not {value['mode']!r}", "mode")
    for inner, measure in (("older", age), ("max-size", weight)) if key == "retention" else ():
        try:
            measure(str(value[inner])) if inner in value else None
        except UsageError as why:
            raise wrong(str(why), inner) from None
    for code, inner in value.items() if key in ("rules", "severity", "ignore") and isinstance(value, dict) else ():
        if key == "rules" and not isinstance(inner, dict):
            raise wrong(f"[tool.traindx.rules.{code}] must be a table of limits", code)
        if key == "severity" and inner not in SEVERITIES:
            raise wrong(f"the severity of {code} must be one of {', '.join(SEVERITIES)}, not {inner!r}", code)
        if key == "ignore":
            _until(code, inner, wrong)
    return value


def _until(code: str, inner: Any, wrong: Callable[..., UsageError]) -> datetime.date | None:
    """The day on which an ignored condition is checked again; None: never."""
    if not isinstance(inner, dict) or not isinstance(inner.get("why"), str) or set(inner) - {"why", "until"}:
        raise wrong(f'write {code} = {{why = "…", until = "2027-01-31"}}: a reason and, if you like, an end', code)
    until = inner.get("until")
    try:
        return until if until is None or isinstance(until, datetime.date) else datetime.date.fromisoformat(until)
    except (TypeError, ValueError):
        raise wrong(f"'until' of {code} is a day such as 2027-01-31, not {until!r}", code) from None


def age(text: str, key: str = "older") -> float:
    """Days.

    >>> age("8w")
    56.0
    """
    return _measured(text, _DAYS, f"'{key}' is an age such as 30d, 12h or 8w, not {text!r}")


def weight(text: str, key: str = "max-size") -> float:
    """Bytes.

    >>> weight("10G")
    10000000000.0
    """
    return _measured(text, _BYTES, f"'{key}' is a size such as 500M or 10G, not {text!r}")


def _measured(text: str, units: Mapping[str, float], told: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)b?", text.strip().lower())
    if match is None or match[2] not in units:
        raise UsageError(told)
    return float(match[1]) * units[match[2]]


# -- all layers together


def _over(below: dict[str, tuple[Any, str]], above: Mapping[str, tuple[Any, str]]) -> None:
    """Lay a nearer layer on top: tables are joined, `ignore` only grows, everything else is replaced."""
    for key, (value, where) in above.items():
        old = below.get(key, (None, ""))[0]
        if key == "ignore":
            value = {**_ignored(old), **_ignored(value)}
        elif isinstance(value, dict) and isinstance(old, dict):
            value = {**old, **value}
        below[key] = (value, where)


def _ignored(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {str(code): {} for code in value or ()}


def _settings(merged: Mapping[str, tuple[Any, str]], source: str, today: datetime.date) -> Settings:
    values: dict[str, Any] = {"source": source, "origins": {key: where for key, (_, where) in merged.items()}}
    for key, (value, where) in merged.items():
        if key == "ignore":
            values |= _in_force(value, where, today)
        elif key == "records":
            values["mode"] = value.get("mode", "private")
        else:
            values[key.replace("-", "_")] = tuple(str(v) for v in value) if isinstance(value, list) else value
    return Settings(**values)


def _in_force(given: Mapping[str, Any], where: str, today: datetime.date) -> dict[str, Any]:
    codes, reasons, expired = [], {}, []
    for code, inner in given.items():
        until = _until(code, inner, UsageError) if inner else None
        if until is not None and until < today:
            expired.append(f"{where}: {code} was ignored until {until} ({inner['why']}); it is checked again")
            continue
        codes.append(code)
        if inner:
            reasons[code.upper()] = f"ignored{f' until {until}' if until else ''}: {inner['why']}"
    return {"ignore": tuple(codes), "reasons": reasons, "expired": tuple(expired)}
