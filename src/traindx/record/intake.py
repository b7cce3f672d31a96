"""Turning what the caller wrote into tables: records with the same signals become one table of 32-bit (or 64-bit) numbers.

Runs on the worker's thread. What is not a number is left out and counted, never raised. The usual record, whose signals and
types were met before, takes a short way without a look at each value: this thread shares the interpreter with the training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.record.format import MOST_WIDTH, Column, Kind, Layout, Rows, names_text

MOST_SIGNALS = 10_000  # a name made of the step number would otherwise fill the disk with names
MOST_LAYOUTS = 64  # more mixtures of signals than this: each further signal is kept by itself
MOST_FORMS = 1000  # layouts in all: a matrix whose width changes with every record makes no more than this
MOST_VALUES = 500_000  # of all layouts together, each of which is summed up in memory; mixtures may take half of them
MOST_NAME = 256  # bytes of a signal's name

_NUMBERS = (float, int, bool, np.floating, np.integer, np.bool_, Decimal)
_PLAIN = {float, int, bool, np.float64, np.float32}
_TINY = float(np.finfo(np.float32).tiny)
_WHOLE = 2.0**24  # up to here float32 holds every whole number

Entry = tuple[Any, Any, Mapping[str, Any]]  # step, time, values
Names = tuple[str, ...]
Widths = tuple[int, ...]
Row = tuple[int, float, Sequence[Any]]  # step, time, the values in order of their names
Groups = dict[tuple[str, Names, Widths], list[Row]]


@dataclass(frozen=True)
class Table:
    """Records of one layout, not yet numbered, and the stream they belong to."""

    stream: str  # "narrow" or "wide"
    layout: Layout
    rows: Rows


@dataclass(frozen=True)
class _Plan:
    """How a record with these keys falls apart."""

    numbers: Names
    vectors: Names
    pick_numbers: Callable[[Mapping[str, Any]], Sequence[Any]]
    pick_vectors: Callable[[Mapping[str, Any]], Sequence[Any]]


class Intake:
    """Knows every signal seen so far, what it is made of, and how its columns are called."""

    def __init__(self) -> None:
        self.layouts: dict[int, Layout] = {}
        self.odd: Counter[str] = Counter()  # what was left out, and why
        self._texts: dict[int, bytes] = {}
        self._names: dict[str, Names] = {}
        self._named: dict[tuple[str, int], int] = {}
        self._matrix: dict[str, bool] = {}
        self._double: set[str] = set()
        self._mixtures: set[tuple[str, Names]] = set()
        self._plans: dict[Names, _Plan] = {}
        self._values = 0
        self._made: dict[tuple[str, Names, Widths], Layout] = {}

    def names(self, signal: str, names: Sequence[str]) -> None:
        """From now on, the columns of that matrix are called so."""
        self._names[signal] = tuple(_name(n) for n in names)
        self._named = {key: value for key, value in self._named.items() if key[0] != signal}
        self._made.clear()

    def define(self, identity: int) -> list[tuple[Kind, bytes]]:
        """The frames that say what a layout is."""
        layout = self.layouts[identity]
        texts = dict.fromkeys(c.names for c in layout.columns if c.names)
        return [*((Kind.NAMES, self._texts[n]) for n in texts), (Kind.LAYOUT, layout.text)]

    def tables(self, entries: Iterable[Entry]) -> list[Table]:
        """The records as tables; their order is kept within each layout."""
        groups: Groups = {}
        for entry in entries:
            if type(entry[0]) is tuple:
                self._sort_block(entry[0], entry[1], groups)
            else:
                self._sort(entry, groups)
        return [table for (stream, names, widths), rows in groups.items() for table in self._group(stream, names, widths, rows)]

    def _sort(self, entry: Entry, groups: Groups) -> None:
        try:
            step, time = int(entry[0]), float(entry[1])
            values = entry[2]
            if not -(2**63) <= step < 2**63:
                raise ValueError
            keys = tuple(values)
        except (TypeError, ValueError, OverflowError):
            self.odd["records whose step, time or values cannot be read"] += 1
            return
        plan = self._plans.get(keys)
        if plan is not None:
            numbers, vectors = plan.pick_numbers(values), plan.pick_vectors(values)
        if plan is None or not _as_planned(numbers, vectors):
            plan, values = self._plan(keys, values)
            numbers, vectors = plan.pick_numbers(values), plan.pick_vectors(values)
        if numbers:
            groups.setdefault(("narrow", plan.numbers, ()), []).append((step, time, numbers))
        if vectors:
            groups.setdefault(("wide", plan.vectors, tuple(map(len, vectors))), []).append((step, time, vectors))

    def _sort_block(self, names: Names, rows: list[Row], groups: Groups) -> None:
        """Records of plain floats with the same signals: the first one goes the usual way, the rest in one go."""
        plan = self._plans.get(names)
        begin = 0
        if plan is None or plan.numbers != names:
            self._sort((rows[0][0], rows[0][1], dict(zip(names, rows[0][2]))), groups)
            plan, begin = self._plans.get(names), 1
        if plan is not None and plan.numbers == names and all(set(map(type, row[2])) <= _PLAIN for row in rows):
            groups.setdefault(("narrow", names, ()), []).extend(rows[begin:])
            return
        for step, time, values in rows[begin:]:
            self._sort((step, time, dict(zip(names, values))), groups)

    def _plan(self, keys: Names, given: Mapping[str, Any]) -> tuple[_Plan, Mapping[str, Any]]:
        """The long way: look at each value, keep what is a number."""
        values = {}
        for name, value in given.items():
            kept = self._kept(name, value)
            if kept is not None:
                values[name] = kept
        numbers = tuple(name for name in values if not self._matrix[name])
        vectors = tuple(name for name in values if self._matrix[name])
        plan = _Plan(numbers, vectors, _picker(numbers), _picker(vectors))
        if len(values) == len(keys) and len(self._plans) < 4 * MOST_LAYOUTS:
            self._plans[keys] = plan
        return plan, values

    def _kept(self, name: Any, value: Any) -> Any:
        kept: Any = value
        matrix = False
        if not isinstance(value, _NUMBERS):
            vector = _vector(value)
            if vector is None:
                self.odd[f"values that are no numbers ({type(value).__name__})"] += 1
                return None
            matrix, kept = vector.ndim == 1, vector if vector.ndim else float(vector)
        if name not in self._matrix:
            if not self._welcome(name):
                return None
            self._matrix[name] = matrix
        if self._matrix[name] is not matrix:
            self.odd["values of signals that are a number once and a list another time"] += 1
            return None
        return kept

    def _welcome(self, name: Any) -> bool:
        if not isinstance(name, str) or not name:
            self.odd["signals whose name is no text"] += 1
        elif len(self._matrix) >= MOST_SIGNALS:
            self.odd[f"values of signals beyond the first {MOST_SIGNALS}"] += 1
        else:
            return True
        return False

    def _group(self, stream: str, names: Names, widths: Widths, rows: list[Row]) -> list[Table]:
        if (stream, names) not in self._mixtures:
            full = len(self._mixtures) >= MOST_LAYOUTS or self._values + sum(widths) > MOST_VALUES // 2
            if full and len(names) > 1:
                return [
                    t
                    for i in range(len(names))
                    for t in self._group(stream, names[i : i + 1], widths[i : i + 1], _only(rows, i))
                ]
            self._mixtures.add((stream, names))
        table = _numbers(rows) if stream == "narrow" else _vectors(rows)
        if table.dtype != np.float32:
            self._widen(names, widths, table)
        layout = self._layout(stream, names, widths)
        if layout is None:
            self.odd["records beyond the forms or widths that are taken"] += len(rows)
            return []
        singles, doubles = _sides(layout, table)
        steps, times = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.float64)
        return [Table(stream, layout, Rows(layout.identity, 0, 1, steps, times, singles, doubles))]

    def _layout(self, stream: str, names: Names, widths: Widths) -> Layout | None:
        """The layout of such records; None when there are too many already."""
        key = (stream, names, widths)
        if (made := self._made.get(key)) is not None:
            return made
        columns = []
        for i, name in enumerate(names):
            width = widths[i] if stream == "wide" else None
            identity = 0 if width is None else self._name_columns(name, width)
            columns.append(Column(_name(name), width, name in self._double, identity))
        layout = Layout(tuple(columns))
        if layout.identity not in self.layouts:
            if len(self.layouts) >= MOST_FORMS or self._values + layout.width > MOST_VALUES:
                return None
            self._values += layout.width
        self._made[key] = self.layouts.setdefault(layout.identity, layout)
        return self._made[key]

    def _widen(self, names: Names, widths: Widths, table: NDArray[Any]) -> None:
        """A signal that once needed 64 bits keeps them: otherwise every such record would begin a new layout."""
        lost = _beyond_single(table).any(axis=0)
        if lost.any():
            owner = np.repeat(np.arange(len(names)), widths or 1)
            fresh = {names[i] for i in owner[lost]} - self._double
            if fresh:
                self._double |= fresh
                self._made.clear()

    def _name_columns(self, name: str, width: int) -> int:
        if (known := self._named.get((name, width))) is not None:
            return known
        given = self._names.get(name, ())
        if given and len(given) != width:
            self.odd[f"records of {_name(name)} with {width} values for {len(given)} names"] += 1
        names = (*given[:width], *(str(i) for i in range(len(given), width)))
        identity, text = names_text(names)
        self._texts[identity] = text
        self._named[name, width] = identity
        return identity


def _as_planned(numbers: Sequence[Any], vectors: Sequence[Any]) -> bool:
    """Whether a record has the types that the first one with its keys had; cheap, for it is asked for every record."""
    return set(map(type, numbers)) <= _PLAIN and all(
        type(v) is np.ndarray and v.ndim == 1 and v.dtype.kind in "fiub" for v in vectors
    )


def _picker(names: Names) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Takes the values of these names out of a record, in order."""
    if not names:
        return lambda values: ()
    if len(names) == 1:
        (name,) = names
        return lambda values: (values[name],)
    return itemgetter(*names)


def _only(rows: list[Row], i: int) -> list[Row]:
    return [(step, time, (values[i],)) for step, time, values in rows]


def _numbers(rows: list[Row]) -> NDArray[np.float64]:
    """(R, signals) of records of plain numbers."""
    try:
        return np.array([values for _, _, values in rows], np.float64)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        return np.array([[_float(v) for v in values] for _, _, values in rows])


def _vectors(rows: list[Row]) -> NDArray[Any]:
    """(R, values of all signals) of records of arrays, in 32 bits if all of them are."""
    table = np.concatenate([v for _, _, values in rows for v in values]).reshape(len(rows), -1)
    return table if table.dtype == np.float32 else table.astype(np.float64)


def _sides(layout: Layout, table: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The columns kept in 32 bits and those kept in 64."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not layout.doubles:
            return table.astype(np.float32, copy=False), np.empty((len(table), 0))
        double = np.repeat([c.double for c in layout.columns], [c.size for c in layout.columns])
        return table[:, ~double].astype(np.float32), table[:, double].astype(np.float64)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError, ArithmeticError):
        return float("nan")


def _beyond_single(table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where float32 would say something else: too large, too small, or a whole number it cannot hold."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        short = table.astype(np.float32)
        size = np.abs(table)
        lost = (np.isinf(short) & np.isfinite(table)) | ((size < _TINY) & (size > 0))
        lost |= (size > _WHOLE) & (short != table) & (np.floor(table) == table)
    return np.asarray(lost, np.bool_)


def _vector(value: Any) -> NDArray[Any] | None:
    """An array of numbers with at most one axis; None when it is something else."""
    if isinstance(value, list | tuple) and len(value) <= MOST_WIDTH:
        try:
            value = np.array(value)
        except (TypeError, ValueError, OverflowError):
            return None
        if not value.size:
            value = value.astype(np.float32)
    fits = isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "fiub" and value.size <= MOST_WIDTH
    return value if fits else None


def _name(name: str) -> str:
    """A name every format can hold: no lone surrogates, at most 256 bytes."""
    text = str(name).encode("utf-8", "replace")
    return text[:MOST_NAME].decode("utf-8", "ignore")
