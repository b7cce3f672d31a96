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
MOST_NAME = 256  # bytes of a signal's name

_NUMBERS = (float, int, bool, np.floating, np.integer, np.bool_, Decimal)
_PLAIN = {float, int, bool, np.float64, np.float32}
_TINY = float(np.finfo(np.float32).tiny)
_WHOLE = 2.0**24  # up to here float32 holds every whole number

Entry = tuple[Any, Any, Mapping[str, Any]]  # step, time, values
Names = tuple[str, ...]
Groups = dict[tuple[str, Names, tuple[int, ...]], list[tuple[int, float, Mapping[str, Any]]]]


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

    def names(self, signal: str, names: Sequence[str]) -> None:
        """From now on, the columns of that matrix are called so."""
        self._names[signal] = tuple(_name(n) for n in names)
        self._named = {key: value for key, value in self._named.items() if key[0] != signal}

    def define(self, identity: int) -> list[tuple[Kind, bytes]]:
        """The frames that say what a layout is."""
        layout = self.layouts[identity]
        texts = dict.fromkeys(c.names for c in layout.columns if c.names)
        return [*((Kind.NAMES, self._texts[n]) for n in texts), (Kind.LAYOUT, layout.text)]

    def tables(self, entries: Iterable[Entry]) -> list[Table]:
        """The records as tables; their order is kept within each layout."""
        groups: Groups = {}
        for entry in entries:
            self._sort(entry, groups)
        return [table for (stream, names, _), rows in groups.items() for table in self._group(stream, names, rows)]

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
        if plan is None or not _as_planned(plan, values):
            plan, values = self._plan(keys, values)
        if plan.numbers:
            groups.setdefault(("narrow", plan.numbers, ()), []).append((step, time, values))
        if plan.vectors:
            widths = tuple(len(values[name]) for name in plan.vectors)
            groups.setdefault(("wide", plan.vectors, widths), []).append((step, time, values))

    def _plan(self, keys: Names, given: Mapping[str, Any]) -> tuple[_Plan, Mapping[str, Any]]:
        """The long way: look at each value, keep what is a number."""
        values = {}
        for name, value in given.items():
            kept = self._kept(name, value)
            if kept is not None:
                values[name] = kept
        numbers = tuple(name for name in values if not self._matrix[name])
        plan = _Plan(numbers, tuple(name for name in values if self._matrix[name]))
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

    def _group(self, stream: str, names: Names, rows: list[tuple[int, float, Mapping[str, Any]]]) -> list[Table]:
        if (stream, names) not in self._mixtures:
            if len(self._mixtures) >= MOST_LAYOUTS and len(names) > 1:
                return [table for name in names for table in self._group(stream, (name,), rows)]
            self._mixtures.add((stream, names))
        columns = self._numbers(names, rows) if stream == "narrow" else self._vectors(names, rows)
        layout = Layout(tuple(c for c, _ in columns))
        if layout.identity not in self.layouts and len(self.layouts) >= MOST_FORMS:
            self.odd[f"records in a form not met among the first {MOST_FORMS}"] += len(rows)
            return []
        layout = self.layouts.setdefault(layout.identity, layout)
        singles = [block for column, block in columns if not column.double]
        doubles = [block for column, block in columns if column.double]
        table = Rows(
            layout.identity,
            0,
            1,
            np.array([r[0] for r in rows], np.int64),
            np.array([r[1] for r in rows], np.float64),
            _side(singles, len(rows), np.float32),
            _side(doubles, len(rows), np.float64),
        )
        return [Table(stream, layout, table)]

    def _numbers(self, names: Names, rows: list[tuple[int, float, Mapping[str, Any]]]) -> list[tuple[Column, NDArray[Any]]]:
        pick = _picker(names)
        try:
            table = np.array([pick(values) for _, _, values in rows], np.float64)
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            table = np.array([[_float(v) for v in pick(values)] for _, _, values in rows])
        self._widen(names, table)
        return [(Column(_name(n), None, n in self._double, 0), table[:, i : i + 1]) for i, n in enumerate(names)]

    def _vectors(self, names: Names, rows: list[tuple[int, float, Mapping[str, Any]]]) -> list[tuple[Column, NDArray[Any]]]:
        out = []
        for name in names:
            block = np.stack([values[name] for _, _, values in rows])
            if block.dtype != np.float32:
                block = block.astype(np.float64, copy=False)
                if (_beyond_single(block)).any():
                    self._double.add(name)
            width = block.shape[1]
            out.append((Column(_name(name), width, name in self._double, self._name_columns(name, width)), block))
        return out

    def _widen(self, names: Names, table: NDArray[np.float64]) -> None:
        """A signal that once needed 64 bits keeps them: otherwise every such record would begin a new layout."""
        lost = _beyond_single(table)
        if lost.any():
            self._double.update(names[i] for i in np.flatnonzero(lost.any(axis=0)))

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


def _as_planned(plan: _Plan, values: Mapping[str, Any]) -> bool:
    """Whether this record has the types that the first one with its keys had; cheap, for it is asked for every record."""
    if plan.numbers:
        pick = _picker(plan.numbers)
        if not set(map(type, pick(values))) <= _PLAIN:
            return False
    for name in plan.vectors:
        value = values[name]
        if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.kind not in "fiub":
            return False
    return True


def _picker(names: Names) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Takes the values of these names out of a record, as a tuple."""
    if len(names) == 1:
        (name,) = names
        return lambda values: (values[name],)
    return itemgetter(*names)


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


def _side(blocks: list[NDArray[Any]], rows: int, kind: type[np.floating]) -> NDArray[Any]:
    if not blocks:
        return np.empty((rows, 0), kind)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.concatenate(blocks, axis=1, dtype=kind, casting="unsafe")


def _name(name: str) -> str:
    """A name every format can hold: no lone surrogates, at most 256 bytes."""
    text = str(name).encode("utf-8", "replace")
    return text[:MOST_NAME].decode("utf-8", "ignore")
