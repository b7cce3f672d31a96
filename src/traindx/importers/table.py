"""What one log says, in its own words: named tracks of numbers with their place in the order of writing.

Readers of formats make a `Log`; `assemble` gives its columns a meaning and turns it into runs.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traindx.importers.source import MAX_CELLS, MAX_COLUMNS
from traindx.run import Event, Floats, Ints

MAX_NAME = 256  # characters of a column's name that are kept
MAX_DEPTH = 6  # of nested objects in one record

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = {
    "nan": math.nan,
    "+nan": math.nan,
    "-nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_TENSOR = re.compile(r"tensor\(\s*([-+\w.]+)\s*[,)]")


@dataclass
class Track:
    """One column as it was written: where in the order of writing, where on the log's axis, and the value."""

    rows: Ints
    x: Floats
    values: Floats
    times: Floats | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, keep: Any) -> Track:
        return Track(self.rows[keep], self.x[keep], self.values[keep], None if self.times is None else self.times[keep])


@dataclass
class Log:
    """One file (or several that belong together), read but not yet understood."""

    kind: str
    source: str
    tracks: dict[str, Track] = field(default_factory=dict)
    unit: str = "step"  # what the tracks' x counts: step, epoch, samples, tokens or record
    axis: str = ""  # the column x was taken from
    hparams: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    split: str = ""  # train, val or test when the place of the file says so
    forms: dict[str, str] = field(default_factory=dict)  # column → logging form, where the format fixes it
    meanings: dict[str, str] = field(default_factory=dict)  # column → signal, where the format fixes it
    matrices: dict[str, dict[str, Track]] = field(default_factory=dict)  # signal → name → track (histogram summaries)
    unused: list[str] = field(default_factory=list)  # columns that hold no numbers
    shared: bool = True  # all tracks count on one axis (a table); False: every tag has its own
    first: str = ""  # what identifies the start of the run (prefixes of one run share it)

    def damage(self, what: str) -> None:
        """Note something that could not be read; such notes always hold the word "skipped"."""
        self.notes.append(what if "skipped" in what else f"skipped: {what}")

    @property
    def points(self) -> int:
        return sum(len(t) for t in self.tracks.values())


def in_time_order(log: Log) -> None:
    """Number the records by the clock, so that a restart lies at the same place of all tracks."""
    if any(t.times is None for t in log.tracks.values()):
        return
    times = np.concatenate([t.times for t in log.tracks.values() if t.times is not None])
    within = np.concatenate([np.arange(len(t)) for t in log.tracks.values()])
    order = np.lexsort((within, times))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    at = 0
    for name, track in log.tracks.items():
        rows = rank[at : at + len(track)]
        at += len(track)
        again = np.argsort(rows)
        moved = track.where(again)
        moved.rows = rows[again]
        log.tracks[name] = moved


def number(cell: Any, decimal: str = ".") -> float | None:
    """The number in a cell; None when there is none. A gap is never a zero and never a NaN."""
    if isinstance(cell, float):
        return cell
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int):
        return float(cell) if abs(cell) < 1 << 1000 else None
    if isinstance(cell, str):
        return _of_text(cell, decimal)
    if isinstance(cell, np.generic) and cell.dtype.kind in "fiu":
        return float(cell)
    return None


def _of_text(cell: str, decimal: str) -> float | None:
    text = cell.strip().strip("\"'").strip()
    if not text or len(text) > 64 or not text.isascii():
        return None
    if text.endswith("%"):
        text = text[:-1].rstrip()
    if decimal == "," and "," in text:
        text = text.replace(".", "").replace(",", ".")
    if _NUMBER.fullmatch(text):
        return float(text)
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    inside = _TENSOR.match(text)
    return _of_text(inside[1], ".") if inside else None


def clean_name(name: Any) -> str:
    """A column's name without padding, control characters and excess."""
    text = str(name)[: 4 * MAX_NAME]
    text = "".join(c for c in text if c.isprintable()).strip().encode("utf-8", "replace").decode("utf-8")
    return text[:MAX_NAME]


def flat(record: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The entries of a nested record by joined names: {"train": {"loss": 1}} gives train/loss."""
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth < MAX_DEPTH:
                yield from flat(value, f"{name}/", depth + 1)
        elif isinstance(value, list | tuple) and len(value) == 1:
            yield name, value[0]
        else:
            yield name, value


AXES = ("step", "epoch", "samples", "tokens", "timestamp")


@dataclass(frozen=True)
class Options:
    """What the user said about the columns: column → signal, or column → one of `AXES`."""

    map: Mapping[str, str] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, str]:
        return {column: target for column, target in self.map.items() if target in AXES}

    @property
    def signals(self) -> dict[str, str]:
        return {column: target for column, target in self.map.items() if target not in AXES}


class Rows:
    """Collects records into columns; gaps stay gaps, and text stays out."""

    def __init__(self, rename: Mapping[str, str] | None = None) -> None:
        self._rename = dict(rename or {})  # columns that the user said are axes
        self._at: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self._names: dict[Any, str] = {}
        self.words: dict[str, dict[int, str]] = {}  # short texts by row, for columns that name runs
        self.count = 0
        self.cells = 0
        self.rejected: Counter[str] = Counter()  # cells that were neither a number nor empty
        self.dropped = 0  # records beyond the limits

    def add(self, record: Mapping[Any, Any]) -> None:
        """One record; what is not a number is counted, nested objects are flattened."""
        if self.cells >= MAX_CELLS:
            self.dropped += 1
            return
        row, names = self.count, self._names
        for key, value in record.items():
            kind = type(value)
            if kind is float or kind is int:  # nearly every cell: no detour
                slot = names.get(key) or self._slot(key)
                if slot is not None and (kind is float or abs(value) < 1 << 1000):
                    self._at[slot].append(row)
                    self._values[slot].append(value)
                    self.cells += 1
            else:
                self._add_odd(key, value)
        self.count += 1

    def _add_odd(self, key: Any, value: Any) -> None:
        for name, inner in flat({key: value}):
            found = number(inner)
            if found is None:
                self._reject(name, inner)
            else:
                self._put(name, self.count, found)

    def add_column(self, name: str, start: int, cells: Sequence[Any], decimal: str = ".") -> None:
        """A stretch of one column; the rows are numbered from `start`."""
        if self.cells >= MAX_CELLS:
            self.dropped += len(cells)
            return
        plain = _all_plain(cells) if decimal == "." else None
        if plain is not None:
            slot = self._slot(name)
            if slot is not None:
                self._at[slot].extend(range(start, start + len(plain)))
                self._values[slot].extend(plain)
                self.cells += len(plain)
            return
        for i, cell in enumerate(cells):
            found = number(cell, decimal)
            if found is None:
                self._reject(name, cell, start + i)
            else:
                self._put(name, start + i, found)

    def _slot(self, key: Any) -> str | None:
        slot = self._names.get(key)
        if slot is None:
            if len(self._at) >= MAX_COLUMNS:
                self.dropped += 1
                return None
            slot = clean_name(key) or "unnamed"
            slot = self._rename.get(slot, slot)
            while slot in self._at:
                slot += "_2"
            self._names[key] = slot
            self._at[slot], self._values[slot] = array("q"), array("d")
        return slot

    def _put(self, key: Any, row: int, value: float) -> None:
        slot = self._slot(key)
        if slot is not None:
            self._at[slot].append(row)
            self._values[slot].append(value)
            self.cells += 1

    def _reject(self, key: Any, value: Any, row: int | None = None) -> None:
        if value is None or value == "":
            return
        name = clean_name(key)
        if isinstance(value, str):
            text = value.strip()
            if not text or text.lower() in ("none", "null", "n/a", "na", "-", "--"):
                return
            if len(text) <= 80 and len(self.words) < 200:
                kept = self.words.setdefault(name, {})
                if len(kept) < 200_000:
                    kept[self.count if row is None else row] = text
        if len(self.rejected) < 1000 or name in self.rejected:
            self.rejected[name] += 1

    def columns(self) -> dict[str, tuple[Ints, Floats]]:
        """Every column that holds numbers: rows and values."""
        return {
            name: (np.frombuffer(at, dtype=np.int64).copy(), np.frombuffer(self._values[name], dtype=np.float64).copy())
            for name, at in self._at.items()
            if len(at)
        }


def _all_plain(cells: Sequence[Any]) -> list[float] | None:
    """All cells as floats when every one is a plain number in ASCII; the fast way through a dense column."""
    try:
        text = "".join(cells)
    except TypeError:
        return None
    if not text.isascii() or "_" in text or '"' in text:
        return None
    try:
        return list(map(float, cells))
    except ValueError:
        return None
