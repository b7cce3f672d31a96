"""Reading JSON that may be broken, endless or hostile: one value per line, one value per file, values one after another."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from traindx.importers.source import Lines, Source, decode

MAX_NESTING = 200  # of brackets in one line; json would recurse
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits[:400]))
_LIST = re.compile(r"\[\s*(?:$|[\[{\"\]]|(?:-?\d[\d.eE+-]*|true|false|null|-?NaN|-?Infinity)\s*(?:[,\]]|$))")
_SPACE = re.compile(r"[\s,;\ufeff]*")


def loads(text: str) -> Any:
    """The value of a JSON text, NaN and Infinity allowed; None when it is broken or nested beyond reason."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError, OverflowError):
        return None


def objects(lines: Lines) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Each line as (object, line); the object is None where the line holds none. Commas after objects are forgiven."""
    for line in lines:
        text = line.strip().lstrip("\ufeff").rstrip(",")
        if not text:
            continue
        found = None
        if text.startswith("{") and text.endswith("}") and text.count("{") < MAX_NESTING:
            value = loads(text)
            found = value if isinstance(value, dict) else None
        yield found, line


def values(text: str, most: int = 5_000_000) -> Iterator[Any]:
    """JSON values that stand one after another, with or without commas; ends at the first that is broken."""
    at, count = _SPACE.match(text).end(), 0  # type: ignore[union-attr]
    while at < len(text) and count < most:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError, OverflowError):
            return
        yield value
        count += 1
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]


def salvage(text: str, key: str) -> list[Any]:
    """The entries of the list under `key` that can still be read of a cut or broken JSON text."""
    start = re.search(rf'"{re.escape(key)}"\s*:\s*\[', text)
    return list(values(text[start.end() :])) if start else []


def salvage_numbers(text: str) -> dict[str, list[Any]]:
    """Lists of numbers by name in a cut JSON text: {"loss": [1.0, 2.0, …"""
    out: dict[str, list[Any]] = {}
    done = 0
    for found in re.finditer(r'"([^"\\]{1,200})"\s*:\s*\[', text):
        if found.start() < done or len(out) >= 1000:
            continue
        end = text.find("]", found.end())
        body = text[found.end() : end] if end >= 0 else text[found.end() :].rpartition(",")[0]
        done = end if end >= 0 else len(text)
        cells = [c.strip() for c in body.split(",")]
        if cells and all(len(c) < 64 and re.fullmatch(r"[-+\w.]+", c) for c in cells if c):
            out[found[1]] = [_number(c) for c in cells if c]
    return out


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return math.nan if cell == "NaN" else None


def whole(source: Source) -> str:
    """The text of a file that is parsed in one piece."""
    return decode(source.whole())


def first_value(text: str) -> str:
    """The first character that is not blank; nothing where a bracket only begins a line of text: [INFO], [2026-01-01 10:00]."""
    bare = text.lstrip("\ufeff \t\r\n")
    return "" if bare[:1] == "[" and not _LIST.match(bare) else bare[:1]
