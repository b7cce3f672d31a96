"""From records on disk back to signals: each record taken once, from the finest level that has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.record.format import Column, Layout, Rows, Span
from traindx.run import Floats, Ints, Matrix, Series, Signal

MARKED_ROWS = 6  # records of a matrix that marks may add per span, so that spikes at many places stay readable


@dataclass
class Base:
    """The records of a layout that are left, in order."""

    numbers: Ints
    steps: Ints
    times: Floats
    singles: NDArray[np.float32]
    doubles: NDArray[np.float64]


@dataclass
class Part:
    """All that was read of one layout."""

    layout: Layout
    full: list[Rows] = field(default_factory=list)
    thin: list[Rows] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def title(self) -> str:
        names = [c.signal for c in self.layout.columns]
        return ", ".join(names[:2]) + (f" and {len(names) - 2} more signals" if len(names) > 2 else "")

    def missing(self, made: int) -> tuple[int, int | None]:
        """How many of `made` records are in no level, and the step before the first of them."""
        held = [(r.first, r.last, int(r.steps[-1])) for r in self.full] + [(s.first, s.last, s.steps[1]) for s in self.spans]
        at, lost, near, step = 0, 0, None, None
        for first, last, end in sorted(held):
            if first > at:
                near = step if not lost else near
                lost += first - at
            at, step = max(at, last + 1), end
        if made > at:
            near = step if not lost else near
            lost += made - at
        return lost, near

    def base(self) -> Base:
        """Every record that is there, each once: full, else thin, else the last of a span."""
        full = _once(sorted(self.full, key=lambda r: r.first))
        thinned = full[0].first > 0 if full else True
        pieces = [_piece(r) for r in full]
        if thinned or any(b.first != a.last + 1 for a, b in itertools.pairwise(full)):
            have = _numbers(full)
            for extra in (_thin(self.thin), _lasts(self.spans)):
                if extra is not None:
                    fresh = ~np.isin(extra.numbers, have)
                    pieces.append(_select(extra, fresh))
                    have = np.concatenate([have, extra.numbers[fresh]])
        base = _stacked(pieces)
        order = np.argsort(base.numbers, kind="stable")
        return base if np.array_equal(order, np.arange(len(order))) else _select(base, order)

    def marks(self, have: Ints) -> NDArray[Any]:
        """Single values of records that are not there any more."""
        if not self.spans:
            return np.empty(0, [("column", "<u4")])
        every = np.concatenate([s.marks for s in self.spans])
        _, first = np.unique(every["row"].astype(np.int64) * self.layout.width + every["column"], return_index=True)
        every = every[np.sort(first)]
        return every[~np.isin(every["row"].astype(np.int64), have)]

    def outer_spans(self) -> list[Span]:
        """The spans without those inside a larger one."""
        out: list[Span] = []
        at = 0
        for span in sorted(self.spans, key=lambda s: (s.first, -s.count)):
            if span.first >= at:
                out.append(span)
                at = span.last + 1
        return out


def signals_of(parts: Sequence[Part], names: Mapping[int, tuple[str, ...]]) -> tuple[dict[str, Signal], list[str]]:
    """The signals of all layouts together, and notes about what is no longer there in full."""
    pieces: dict[str, list[Signal]] = {}
    notes: list[str] = []
    for part in parts:
        base = part.base()
        part.full, part.thin = [], []  # the same numbers twice would be too many in a long run
        marks = part.marks(base.numbers)
        for column, place in part.layout.places:
            pieces.setdefault(column.signal, []).append(_signal(part.layout, column, place, base, marks, names))
        notes += _thinned(part, base)
    back: list[str] = []
    sharing: dict[Any, Any] = {}
    out = {name: _together(own, name, back, sharing) for name, own in pieces.items()}
    if back:
        more = f" and {len(back) - 3} more" if len(back) > 3 else ""
        notes.append(f"some values of {', '.join(back[:3])}{more} were written late; they are shown in order of steps")
    return out, notes


def _thinned(part: Part, base: Base) -> list[str]:
    """Say what is thinned, and how many values that are not shown were not finite."""
    gone = [s for s in part.outer_spans() if s.count > _between(base.numbers, s.first, s.last)]
    if not gone:
        return []
    kept = _between(base.numbers, 0, gone[-1].last)
    total = sum(s.count for s in gone)
    notes = [
        f"{part.title}: of the {total} records from step {gone[0].steps[0]} to {gone[-1].steps[1]}, {kept} are kept in full, "
        "with the extremes of the rest"
    ]
    counts = np.concatenate([s.counts for s in gone])
    for column, a, b in _ranges(part.layout):
        mine = counts[(counts["column"] >= a) & (counts["column"] < b)]
        nan, inf = int(mine["nan"].sum()), int(mine["up"].sum()) + int(mine["down"].sum())
        if inf or (nan and column.width is None):
            notes.append(f"{column.signal}: {nan + inf} values in them were not finite ({nan} NaN, {inf} infinite)")
    return notes


def _between(numbers: Ints, first: int, last: int) -> int:
    return int(np.searchsorted(numbers, last, side="right") - np.searchsorted(numbers, first))


def _ranges(layout: Layout) -> Iterable[tuple[Column, int, int]]:
    """Each signal with its columns as marks and counts number them: singles first."""
    for column, place in layout.places:
        a = place + (layout.singles if column.double else 0)
        yield column, a, a + column.size


def _signal(
    layout: Layout, column: Column, place: int, base: Base, marks: NDArray[Any], names: Mapping[int, tuple[str, ...]]
) -> Signal:
    table = base.doubles if column.double else base.singles
    a = place + (layout.singles if column.double else 0)
    mine = marks[(marks["column"] >= a) & (marks["column"] < a + column.size)] if len(marks) else marks
    if column.width is None:
        return _series(base, table[:, place].astype(np.float64), mine)
    given = names.get(column.names, ())
    own = (*given[: column.width], *(str(i) for i in range(len(given), column.width)))
    return _matrix(base, table[:, place : place + column.width].astype(np.float64), mine, a, own)


def _series(base: Base, values: Floats, marks: NDArray[Any]) -> Series:
    if not len(marks):
        return Series(base.steps, values, base.times)
    order = np.argsort(np.concatenate([base.numbers, marks["row"].astype(np.int64)]), kind="stable")
    return Series(
        np.concatenate([base.steps, marks["step"]])[order],
        np.concatenate([values, marks["value"]])[order],
        np.concatenate([base.times, marks["time"]])[order],
    )


def _matrix(base: Base, values: Floats, marks: NDArray[Any], shift: int, names: tuple[str, ...]) -> Matrix:
    marks = marks[~np.isnan(marks["value"])] if len(marks) else marks  # in a matrix NaN says that nothing was read
    if not len(marks):
        return Matrix(base.steps, names, values)
    rows, at = _gathered(marks)
    extra = np.full((len(rows), len(names)), np.nan)
    order = np.argsort(marks["score"], kind="stable")  # where two meet, the stronger one stays
    extra[at[order], (marks["column"].astype(np.int64) - shift)[order]] = marks["value"][order]
    steps = np.empty(len(rows), np.int64)
    exact = marks["row"].astype(np.int64) == rows[at]
    steps[at[exact]] = marks["step"][exact]
    order = np.argsort(np.concatenate([base.numbers, rows]), kind="stable")
    return Matrix(np.concatenate([base.steps, steps])[order], names, np.concatenate([values, extra])[order])


def _gathered(marks: NDArray[Any]) -> tuple[Ints, Ints]:
    """The few records that marks are shown at, and the place of each mark among them: its own record, or the nearest."""
    rows, inverse = np.unique(marks["row"].astype(np.int64), return_inverse=True)
    score = np.zeros(len(rows))
    np.maximum.at(score, inverse, marks["score"])
    share = rows // 1000  # about one span
    order = np.lexsort((-score, share))
    rank = np.arange(len(rows)) - np.searchsorted(share[order], share[order])
    chosen = np.sort(rows[order[rank < MARKED_ROWS]])
    right = np.clip(np.searchsorted(chosen, rows), 0, len(chosen) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(chosen[left] - rows) < np.abs(chosen[right] - rows), left, right)
    return chosen, nearest[inverse]


def _together(pieces: list[Signal], name: str, back: list[str], sharing: dict[Any, Any]) -> Signal:
    """One signal from the pieces that different layouts have of it, in order of steps."""
    kind = type(pieces[0])
    same: list[Any] = [p for p in pieces if type(p) is kind]
    if len(same) == 1 and _rising(same[0].steps, sharing):
        return pieces[0]
    if any(not _rising(p.steps, sharing) for p in same):
        back.append(name)
    key = tuple(id(p.steps) for p in same)
    if key not in sharing:
        steps = np.concatenate([p.steps for p in same])
        order = np.argsort(steps, kind="stable")
        sharing[key] = (steps[order], order, same)  # the pieces too: an id means something only while its owner lives
    steps, order, _ = sharing[key]
    if kind is Series:
        return Series(steps, np.concatenate([p.values for p in same])[order], np.concatenate([p.times for p in same])[order])
    names = tuple(dict.fromkeys(n for p in same for n in p.names))
    return Matrix(steps, names, np.concatenate([_spread(p, names) for p in same])[order])


def _rising(steps: Ints, sharing: dict[Any, Any]) -> bool:
    key = ("rising", id(steps))
    if key not in sharing:
        sharing[key] = (bool((np.diff(steps) >= 0).all()), steps)
    return bool(sharing[key][0])


def _spread(part: Matrix, names: tuple[str, ...]) -> Floats:
    if part.names == names:
        return part.values
    out = np.full((len(part), len(names)), np.nan)
    place = {name: i for i, name in enumerate(names)}
    out[:, [place[n] for n in part.names]] = part.values
    return out


# -- pieces of a base ---------------------------------------------------------------------------------------------------


def _once(rows: list[Rows]) -> list[Rows]:
    """Without records that were written twice, because it was not sure that the first time held."""
    out: list[Rows] = []
    at = 0
    for r in rows:
        if r.last >= at:
            r = r.part(max(0, at - r.first), len(r))
            out.append(r)
            at = r.last + 1
    return out


def _numbers(rows: list[Rows]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(r.first, r.last + 1, dtype=np.int64) for r in rows)])


def _piece(r: Rows) -> Base:
    numbers = r.first + r.stride * np.arange(len(r), dtype=np.int64)
    return Base(numbers, r.steps, r.times, r.singles, r.doubles)


def _thin(rows: list[Rows]) -> Base | None:
    if not rows:
        return None
    base = _stacked([_piece(r) for r in rows])
    _, first = np.unique(base.numbers, return_index=True)
    return _select(base, first)


def _lasts(spans: list[Span]) -> Base | None:
    if not spans:
        return None
    numbers, first = np.unique(np.array([s.last for s in spans], np.int64), return_index=True)
    own = [spans[i] for i in first]
    return Base(
        numbers,
        np.array([s.steps[1] for s in own], np.int64),
        np.array([s.time for s in own]),
        np.stack([s.singles[3] for s in own]),
        np.stack([s.doubles[3] for s in own]),
    )


def _stacked(pieces: list[Base]) -> Base:
    if len(pieces) == 1:
        return pieces[0]
    return Base(
        np.concatenate([p.numbers for p in pieces]),
        np.concatenate([p.steps for p in pieces]),
        np.concatenate([p.times for p in pieces]),
        np.concatenate([p.singles for p in pieces]),
        np.concatenate([p.doubles for p in pieces]),
    )


def _select(base: Base, keep: NDArray[Any]) -> Base:
    return Base(base.numbers[keep], base.steps[keep], base.times[keep], base.singles[keep], base.doubles[keep])
