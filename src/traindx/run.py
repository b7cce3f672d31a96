"""The run: what was seen of one training, as numpy arrays. Everything upstream makes one, everything downstream reads one.

>>> run = Run.of({"loss/train": [2.3, 1.9, 1.7]})
>>> run["loss/train"].last
1.7
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from traindx.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _span(steps: Ints) -> str:
    return f", steps {steps[0]}–{steps[-1]}" if len(steps) else ""


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """One number per recorded step; `times` are wall-clock seconds where known."""

    steps: Ints  # (T,), never falling
    values: Floats  # (T,)
    times: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", np.asarray(self.steps, dtype=np.int64))
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        if self.times is not None:
            object.__setattr__(self, "times", np.asarray(self.times, dtype=np.float64))
        if self.steps.shape != self.values.shape or self.steps.ndim != 1:
            raise ValueError(f"a series needs as many steps as values; got {self.steps.shape} and {self.values.shape}")
        if self.times is not None and self.times.shape != self.steps.shape:
            raise ValueError(f"a series needs as many times as steps; got {self.times.shape} and {self.steps.shape}")

    def __len__(self) -> int:
        return len(self.steps)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Series)
            and _same(self.steps, other.steps)
            and _same(self.values, other.values)
            and _same(self.times, other.times)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Series of {len(self)}{_span(self.steps)}, last {self.last:.6g}>"

    @property
    def last(self) -> float:
        """The newest value; NaN when there is none."""
        return float(self.values[-1]) if len(self) else float("nan")

    def finite(self) -> Series:
        """Without the records whose value is not finite."""
        return self.where(np.isfinite(self.values))

    def where(self, keep: NDArray[np.bool_]) -> Series:
        return Series(self.steps[keep], self.values[keep], None if self.times is None else self.times[keep])

    def between(self, lo: float = -np.inf, hi: float = np.inf) -> Series:
        """The records with lo <= step <= hi."""
        return self.where((self.steps >= lo) & (self.steps <= hi))

    def at(self, steps: ArrayLike) -> Floats:
        """The latest value known at each of `steps`; NaN before the first."""
        wanted = np.asarray(steps)
        index = np.searchsorted(self.steps, wanted, side="right") - 1
        out = np.full(wanted.shape, np.nan)
        known = index >= 0
        out[known] = self.values[index[known]]
        return out


@dataclass(frozen=True, eq=False, repr=False)
class Matrix:
    """One number per recorded step and name: parameters, modules, groups, classes."""

    steps: Ints  # (T,)
    names: tuple[str, ...]  # (N,), in forward order where it is known
    values: Floats  # (T, N); NaN where nothing was read

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", np.asarray(self.steps, dtype=np.int64))
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        if self.values.shape != (len(self.steps), len(self.names)):
            raise ValueError(f"a matrix needs steps x names; got {self.values.shape} for {len(self.steps)} x {len(self.names)}")

    def __len__(self) -> int:
        return len(self.steps)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Matrix)
            and self.names == other.names
            and _same(self.steps, other.steps)
            and _same(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Matrix of {len(self)} x {len(self.names)}{_span(self.steps)}>"

    def column(self, name: str) -> Series:
        """The series of one name."""
        return Series(self.steps, self.values[:, self.place[name]])

    @functools.cached_property
    def place(self) -> Mapping[str, int]:
        """Name → its column; the first of those that share a name."""
        return {name: i for i, name in reversed(list(enumerate(self.names)))}

    def columns(self) -> Iterator[tuple[str, Floats]]:
        """Each name with its values."""
        for i, name in enumerate(self.names):
            yield name, self.values[:, i]

    def where(self, keep: NDArray[np.bool_]) -> Matrix:
        return Matrix(self.steps[keep], self.names, self.values[keep])

    def between(self, lo: float = -np.inf, hi: float = np.inf) -> Matrix:
        """The records with lo <= step <= hi."""
        return self.where((self.steps >= lo) & (self.steps <= hi))


@dataclass(frozen=True)
class Event:
    """Something that happened at a step; the kinds are listed in `signals.EVENTS`."""

    step: int
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float | None = None


Signal = Series | Matrix
T = TypeVar("T")


def remembered(work: Callable[[Run], T]) -> Callable[[Run], T]:
    """Worked out once for each run, however many rules ask for each of its layers. Nobody changes what they are given."""

    @functools.wraps(work)
    def known(run: Run) -> T:
        held = run.__dict__.setdefault("_remembered", {})
        if work not in held:
            held[work] = work(run)
        found: T = held[work]
        return found

    return known


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """The record of one training: signals over steps, facts, events, and notes of what is missing from it."""

    signals: Mapping[str, Signal] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # keys: signals.FACTS
    events: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()  # what was dropped, repaired or guessed, in sentences
    source: str = ""
    kind: str = "memory"  # record, tensorboard, csv, …

    @classmethod
    def of(
        cls,
        signals: Mapping[str, Any],
        *,
        steps: ArrayLike | None = None,
        facts: Mapping[str, Any] | None = None,
        events: Iterable[Event] = (),
        notes: Iterable[str] = (),
        source: str = "",
        kind: str = "memory",
    ) -> Run:
        """A run from plain arrays: a list is a series, a dict of lists is a matrix; `steps` counts from 0 if absent."""
        return cls(
            {name: _signal(value, steps) for name, value in signals.items()},
            dict(facts or {}),
            tuple(events),
            tuple(notes),
            source,
            kind,
        )

    def __getitem__(self, name: str) -> Any:
        return self.signals[name]

    def __contains__(self, name: object) -> bool:
        return name in self.signals

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Run)
            and self.signals == other.signals
            and self.facts == other.facts
            and self.events == other.events
            and self.notes == other.notes
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        span = f", steps {self.steps[0]}–{self.steps[1]}" if self.steps else ""
        return f"<Run {self.source or self.kind}: {len(self.signals)} signals{span}>"

    def _repr_html_(self) -> str:
        # Loaded by name: reports stand far above the run, and only a notebook asks.
        return str(importlib.import_module("traindx.report.notebook").run_fragment(self))

    def frame(self, *names: str) -> Any:
        """The series as a pandas or polars frame, or as columns where neither is installed; a row for each step."""
        chosen = {n: s for n, s in self.signals.items() if isinstance(s, Series) and (not names or n in names)}
        if missing := [n for n in names if n not in chosen]:
            raise UsageError(f"the run has no series '{missing[0]}'; it has {', '.join(sorted(self.signals)[:12])}")
        steps = np.unique(np.concatenate([s.steps for s in chosen.values()])) if chosen else np.empty(0, np.int64)
        columns: dict[str, Any] = {"step": steps}
        for name, series in chosen.items():
            columns[name] = np.full(len(steps), np.nan)
            columns[name][np.searchsorted(steps, series.steps)] = series.values
        for library in ("pandas", "polars"):
            if importlib.util.find_spec(library) is not None:
                return importlib.import_module(library).DataFrame(columns)
        return columns

    def plot(self, *names: str) -> Any:
        """The charts of these series, as in the report; shown by a notebook."""
        return importlib.import_module("traindx.report.notebook").Charts(self, names or ("loss/train", "loss/val"))

    def report(self, path: str | Path = "report.html") -> Path:
        """Diagnose the run and write the HTML report."""
        return Path(importlib.import_module("traindx.diagnosis").diagnose(self).report(path))

    def export(self, path: str | Path, to: str = "csv") -> Path:
        """Write the signals for other tools: `to` is csv, parquet or tensorboard."""
        return Path(importlib.import_module("traindx.record.export").export(self, to, path))

    def series(self, name: str) -> Series:
        """The series of that name, empty when it was not recorded."""
        found = self.signals.get(name)
        return found if isinstance(found, Series) else Series(np.empty(0, np.int64), np.empty(0))

    def matrix(self, name: str) -> Matrix:
        """The matrix of that name, empty when it was not recorded."""
        found = self.signals.get(name)
        return found if isinstance(found, Matrix) else Matrix(np.empty(0, np.int64), (), np.empty((0, 0)))

    def fact(self, key: str, default: Any = None) -> Any:
        """The fact of that name, or `default` when it was not seen."""
        return self.facts.get(key, default)

    def matching(self, pattern: str) -> dict[str, Signal]:
        """The signals whose names match, e.g. `metric/val/*`."""
        return {name: s for name, s in self.signals.items() if fnmatch.fnmatchcase(name, pattern)}

    def events_of(self, *kinds: str) -> list[Event]:
        return [e for e in self.events if e.kind in kinds]

    @property
    def steps(self) -> tuple[int, int] | None:
        """First and last step of anything recorded; None for an empty run."""
        ends = [(int(s.steps[0]), int(s.steps[-1])) for s in self.signals.values() if len(s)]
        return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else None

    def between(self, lo: float = -np.inf, hi: float = np.inf) -> Run:
        """The part with lo <= step <= hi; facts and notes stay."""
        return replace(
            self,
            signals={name: s.between(lo, hi) for name, s in self.signals.items()},
            events=tuple(e for e in self.events if lo <= e.step <= hi),
        )

    def with_(
        self,
        signals: Mapping[str, Signal] | None = None,
        facts: Mapping[str, Any] | None = None,
        events: Iterable[Event] = (),
        notes: Iterable[str] = (),
    ) -> Run:
        """This run with more in it; what is given replaces what has the same name."""
        return replace(
            self,
            signals={**self.signals, **(signals or {})},
            facts={**self.facts, **(facts or {})},
            events=tuple(sorted((*self.events, *events), key=lambda e: e.step)),
            notes=(*self.notes, *notes),
        )

    def moved(self, by: int) -> Run:
        """The same with every step of its signals and events larger by `by`."""
        return replace(
            self,
            signals={name: replace(s, steps=s.steps + by) for name, s in self.signals.items()},
            events=tuple(replace(e, step=e.step + by) for e in self.events),
        )

    def then(self, later: Run) -> Run:
        """This run continued by a later incarnation; where its steps go back, the later one is believed."""
        span = later.steps
        if span is None:
            return replace(self, facts={**self.facts, **later.facts}, notes=(*self.notes, *later.notes))
        start = span[0]
        mine = self.between(hi=start - 1)
        own_end = self.steps[1] if self.steps else start
        kind = "attached" if "attached" in later.facts else "resume"  # the same process, now watched from inside
        seam = Event(start, kind, {"previous_last_step": own_end, "steps_repeated": max(0, own_end - start + 1)})
        names = dict.fromkeys((*mine.signals, *later.signals))
        return replace(
            self,
            signals={name: _joined(mine.signals.get(name), later.signals.get(name)) for name in names},
            facts={**self.facts, **later.facts},
            events=(*mine.events, seam, *later.events),
            notes=(*self.notes, *later.notes),
        )

    @classmethod
    def from_frame(cls, frame: Any, **names: Any) -> Run:
        """A run from a pandas or polars frame whose columns are signal names; a `step` column gives the steps."""
        columns = {str(c): np.asarray(frame[c]) for c in frame.columns}
        steps = columns.pop("step", None)
        numeric = {c: v for c, v in columns.items() if v.dtype.kind in "fiub"}
        return cls.of(numeric, steps=steps, kind="frame", **names)


def _signal(value: Any, steps: ArrayLike | None) -> Signal:
    if isinstance(value, Series | Matrix):
        return value
    if isinstance(value, Mapping):
        names = tuple(value)
        table = np.column_stack([np.asarray(v, np.float64) for v in value.values()]) if names else np.empty((0, 0))
        return _in_order(Matrix(_steps(steps, len(table)), names, table))
    values = np.asarray(value, np.float64)
    return _in_order(Series(_steps(steps, len(values)), values))


def _in_order(signal: Signal) -> Signal:
    """Steps never fall in a signal: records given in another order are sorted."""
    steps = signal.steps
    if not len(steps) or bool(np.all(steps[1:] >= steps[:-1])):
        return signal
    order = np.argsort(steps, kind="stable")
    if isinstance(signal, Series):
        return Series(steps[order], signal.values[order])
    return Matrix(steps[order], signal.names, signal.values[order])


def _steps(steps: ArrayLike | None, n: int) -> Ints:
    return np.arange(n, dtype=np.int64) if steps is None else np.asarray(steps, dtype=np.int64)


def _joined(a: Signal | None, b: Signal | None) -> Signal:
    if a is None or not len(a):
        return b if b is not None else a  # type: ignore[return-value]
    if b is None or not len(b):
        return a
    if isinstance(a, Series) and isinstance(b, Series):
        times = None if a.times is None or b.times is None else np.concatenate([a.times, b.times])
        return Series(np.concatenate([a.steps, b.steps]), np.concatenate([a.values, b.values]), times)
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        names: Sequence[str] = tuple(dict.fromkeys((*a.names, *b.names)))
        rows = [_spread(part, names) for part in (a, b)]
        return Matrix(np.concatenate([a.steps, b.steps]), tuple(names), np.concatenate(rows))
    raise ValueError("a signal is a series in one incarnation and a matrix in another")


def _spread(part: Matrix, names: Sequence[str]) -> Floats:
    out = np.full((len(part), len(names)), np.nan)
    place = {name: i for i, name in enumerate(names)}
    out[:, [place[n] for n in part.names]] = part.values
    return out
