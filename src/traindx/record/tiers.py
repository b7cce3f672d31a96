"""What a long run keeps: everything while there is room, then every 50th record, then spans summed up, each in its own ring.

| level | holds                                   | wide signals (matrices) | narrow signals (series) |
|-------|-----------------------------------------|-------------------------|-------------------------|
| 0     | every record                            | the last 128 MB         | the last 256 MB         |
| 1     | every 50th record                       | the last 64 MB          | the last 24 MB          |
| 2     | spans of (up to) 1,000 records          | the last 128 MB         | the last 24 MB          |
| 3     | spans of 32 spans of level 2            | the last 64 MB          | the last 16 MB          |
| 4     | spans of 32 spans of level 3            | the last 32 MB          | the last 8 MB           |

A span has lowest, highest, mean and last of each column, how many values were NaN, +inf, -inf, and *marks*: the value and step
of what left its surroundings (a one-step spike, up or down) and of the first value that was not finite. All levels are written
as the run goes, append-only; old segments of a level are deleted once the next level is safely on disk. So there is nothing to
rewrite, a crash at any moment leaves every record in at least one level, and the reader, who knows records by number, takes
each one from the finest level that has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.record.format import COUNT_TYPE, MARK_TYPE, Layout, Rows, Span

Table = NDArray[Any]
Marks = NDArray[Any]  # of MARK_TYPE or COUNT_TYPE

EVERY = 50  # records to one thin record
SPAN = 1000  # records to one span, where a level-0 ring holds at least two of them
FAN = 32  # spans to one span of the next level
LEVELS = 5
STANDS_OUT = 6.0  # times the usual step-to-step change: about 7 sigma of white noise, so noise alone makes no marks
MB = 1_000_000


@dataclass(frozen=True)
class Budget:
    """How many bytes each level of one process may take on disk, and how large a segment grows."""

    narrow: tuple[int, ...] = (256 * MB, 24 * MB, 24 * MB, 16 * MB, 8 * MB)
    wide: tuple[int, ...] = (128 * MB, 64 * MB, 128 * MB, 64 * MB, 32 * MB)
    words: int = 32 * MB
    parts: int = 16  # segments to one ring

    @property
    def total(self) -> int:
        return sum(self.narrow) + sum(self.wide) + self.words

    def scaled(self, by: float) -> Budget:
        def scale(sizes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(int(s * by) for s in sizes)

        return Budget(scale(self.narrow), scale(self.wide), int(self.words * by), self.parts)


@dataclass
class Sums:
    """One table's running sums over the span in hand."""

    width: int
    kind: type[np.floating]
    low: Table = field(init=False)
    high: Table = field(init=False)
    total: NDArray[np.float64] = field(init=False)
    finite: NDArray[np.int32] = field(init=False)
    odd: NDArray[np.int32] | None = field(init=False)  # (3, W): NaN, +inf, -inf; made when there is one
    best: NDArray[np.float32] = field(init=False)  # (2, W): how far the best mark stands out, up and down
    marks: Marks | None = field(init=False)  # (2, W) of MARK_TYPE; made when there is one
    firsts: list[Marks] = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        w = self.width
        self.low, self.high = np.full(w, np.nan, self.kind), np.full(w, np.nan, self.kind)
        self.total, self.finite = np.zeros(w), np.zeros(w, np.int32)
        self.best = np.full((2, w), STANDS_OUT, np.float32)
        self.odd = self.marks = None
        self.firsts = []

    def add(self, table: Table, block: Rows) -> None:
        """Take a block of EVERY records, of which `table` is this half."""
        finite = np.isfinite(table)
        whole = bool(finite.all())
        clean = table if whole else np.where(finite, table, np.nan)
        low, high = np.fmin.reduce(clean, axis=0), np.fmax.reduce(clean, axis=0)
        self.low, self.high = np.fmin(self.low, low), np.fmax(self.high, high)
        sums = (clean if whole else np.where(finite, table, 0)).sum(axis=0, dtype=np.float64)
        counts = finite.sum(axis=0)
        self.total += sums
        self.finite += counts
        if not whole:
            self._count_odd(table, block)
        self._mark(clean, (high, low), sums / np.maximum(counts, 1), block)

    def _count_odd(self, table: Table, block: Rows) -> None:
        if self.odd is None:
            self.odd = np.zeros((3, self.width), np.int32)
        for k, is_kind in enumerate((np.isnan(table), np.isposinf(table), np.isneginf(table))):
            new = np.flatnonzero(is_kind.any(axis=0) & (self.odd[k] == 0))
            if len(new):
                at = is_kind[:, new].argmax(axis=0)
                self.firsts.append(_marks(new, at, table[at, new], np.inf, block))
            self.odd[k] += is_kind.sum(axis=0)

    def _mark(self, clean: Table, extremes: tuple[Table, Table], mean: Table, block: Rows) -> None:
        """Remember the value that left the block's beginning and end farthest, in units of the usual step-to-step change.

        Beginning and end are medians of nine records: a trend or a change of level is no spike, and a spike there is one.
        """
        change = np.abs(np.diff(clean, axis=0))
        known = ~np.isnan(change)
        pace = np.where(known, change, 0).sum(axis=0, dtype=np.float64) / np.maximum(known.sum(axis=0), 1)
        begin, end = (np.partition(part, 4, axis=0)[4] for part in (clean[:9], clean[-9:]))
        for side, (extreme, usual, sign) in enumerate(
            ((extremes[0], np.fmax(begin, end), 1.0), (extremes[1], np.fmin(begin, end), -1.0))
        ):
            beyond = sign * (extreme - np.where(np.isfinite(usual), usual, mean))
            score = np.where(beyond > 0, beyond / np.maximum(pace, np.finfo(np.float64).tiny), 0)
            better = np.flatnonzero(score > self.best[side])
            if len(better):
                if self.marks is None:
                    self.marks = np.zeros((2, self.width), MARK_TYPE)
                self.best[side, better] = score[better]
                part = clean[:, better]
                at = np.nanargmax(part, axis=0) if sign > 0 else np.nanargmin(part, axis=0)
                self.marks[side, better] = _marks(better, at, part[at, np.arange(len(better))], score[better], block)

    def results(self, last: Table, shift: int) -> tuple[Table, Marks, Marks]:
        """The span's statistics (4, W), its marks and its counts; `shift` is where this table's columns begin in the row."""
        mean = np.where(self.finite > 0, self.total / np.maximum(self.finite, 1), np.nan)
        with np.errstate(over="ignore"):
            stats = np.stack([self.low, self.high, mean.astype(self.kind), last])
        return stats, self._all_marks(shift), self._counts(shift)

    def _counts(self, shift: int) -> Marks:
        if self.odd is None:
            return np.zeros(0, COUNT_TYPE)
        odd = np.flatnonzero(self.odd.any(axis=0))
        counts = np.zeros(len(odd), COUNT_TYPE)
        counts["column"] = odd + shift
        counts["nan"], counts["up"], counts["down"] = self.odd[:, odd]
        return counts

    def _all_marks(self, shift: int) -> Marks:
        out = [np.zeros(0, MARK_TYPE)]
        if self.marks is not None:
            out.append(self.marks[self.best > STANDS_OUT])
        for first in self.firsts:  # a column that is never finite shows it in every record that is kept
            out.append(first[self.finite[first["column"]] > 0])
        marks = np.concatenate(out)
        marks["column"] += shift
        return marks


def _marks(columns: Table, at: Table, values: Table, score: Any, block: Rows) -> Marks:
    out = np.zeros(len(columns), MARK_TYPE)
    out["column"], out["row"], out["value"], out["score"] = columns, block.first + at, values, np.minimum(score, 1e30)
    out["step"], out["time"] = block.steps[at], block.times[at]
    return out


class Tape:
    """The records of one layout as they come by: gives them numbers, and sums them up for the coarser levels."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.made = 0  # records numbered so far
        self.covered = [0] * (LEVELS + 1)  # records that spans of each level sum up
        self._block: list[Rows] = []
        self._held = 0
        self._sums = (Sums(layout.singles, np.float32), Sums(layout.doubles, np.float64))
        self._thin: list[Rows] = []
        self._span_first = 0
        self._span_step = 0
        self._merging: dict[int, list[Span]] = {}

    def number(self, rows: Rows) -> Rows:
        """The same records with the next free numbers."""
        first, self.made = self.made, self.made + len(rows)
        return Rows(rows.layout, first, 1, rows.steps, rows.times, rows.singles, rows.doubles)

    def add(self, rows: Rows, span: int) -> Iterator[tuple[int, Rows | Span]]:
        """Take numbered records; gives thin records (level 1) and spans (level 2 and up) as they become complete."""
        at = 0
        while at < len(rows):
            n = min(EVERY - self._held, len(rows) - at)
            self._block.append(rows.part(at, at + n))
            self._held += n
            at += n
            if self._held == EVERY:
                yield from self._close_block(span)

    def _close_block(self, span: int) -> Iterator[tuple[int, Rows | Span]]:
        block = joined(self._block)
        if not self._thin:
            self._span_first, self._span_step = block.first, int(block.steps[0])
        with np.errstate(all="ignore"):
            for i, sums in enumerate(self._sums):
                if sums.width:
                    sums.add(block.tables[i], block)
        last = block.part(EVERY - 1, EVERY)
        self._thin.append(Rows(last.layout, last.first, EVERY, last.steps, last.times, last.singles, last.doubles))
        self._block, self._held = [], 0
        if len(self._thin) * EVERY >= span:
            yield from self._close_span()

    def _close_span(self) -> Iterator[tuple[int, Rows | Span]]:
        thin = joined(self._thin)
        self._thin = []
        count = thin.last + 1 - self._span_first
        single = self._sums[0].results(thin.singles[-1], 0)
        double = self._sums[1].results(thin.doubles[-1], self.layout.singles)
        for sums in self._sums:
            sums.clear()
        marks = _strongest(np.concatenate([single[1], double[1]]), self.layout.width)
        counts = np.concatenate([single[2], double[2]])
        steps = (self._span_step, int(thin.steps[-1]))
        time = float(thin.times[-1])
        span = Span(thin.layout, self._span_first, count, steps, time, single[0], double[0], marks, counts)
        yield 1, thin
        yield from self._rise(2, span)

    def _rise(self, level: int, span: Span) -> Iterator[tuple[int, Rows | Span]]:
        """Give out a span and, when FAN of them are together, the span of the next level."""
        self.covered[level] = span.last + 1
        yield level, span
        if level + 1 < LEVELS:
            group = self._merging.setdefault(level, [])
            group.append(span)
            if len(group) == FAN:
                self._merging[level] = []
                yield from self._rise(level + 1, merged(group, self.layout))


def merged(spans: list[Span], layout: Layout) -> Span:
    """The span of neighbouring spans: exact for lowest, highest, last and counts; means weighted by finite values."""
    first, last = spans[0], spans[-1]
    marks = np.concatenate([s.marks for s in spans])
    return Span(
        first.layout,
        first.first,
        last.last + 1 - first.first,
        (first.steps[0], last.steps[1]),
        last.time,
        _merged_stats([s.singles for s in spans], _finite(spans, 0, layout.singles)).astype(np.float32),
        _merged_stats([s.doubles for s in spans], _finite(spans, layout.singles, layout.width)).astype(np.float64),
        _strongest(_one_each(marks), layout.width),
        _merged_counts(spans),
    )


def _finite(spans: list[Span], a: int, b: int) -> NDArray[np.float64]:
    """How many finite values each span has in columns a to b: (spans, columns)."""
    out = np.zeros((len(spans), b - a))
    for i, span in enumerate(spans):
        out[i] = span.count
        mine = span.counts[(span.counts["column"] >= a) & (span.counts["column"] < b)]
        for kind in ("nan", "up", "down"):
            out[i, mine["column"] - a] -= mine[kind]
    return out


def _merged_stats(parts: list[Table], finite: NDArray[np.float64]) -> Table:
    table = np.stack(parts)  # (spans, 4, W)
    low, high = np.fmin.reduce(table[:, 0], axis=0), np.fmax.reduce(table[:, 1], axis=0)
    weight = np.where(np.isnan(table[:, 2]), 0, finite)
    total = (np.where(weight > 0, table[:, 2], 0) * weight).sum(axis=0)
    mean = np.where(weight.sum(axis=0) > 0, total / np.maximum(weight.sum(axis=0), 1), np.nan)
    return np.stack([low, high, mean, table[-1, 3]])


def _merged_counts(spans: list[Span]) -> Marks:
    every = np.concatenate([s.counts for s in spans])
    columns, place = np.unique(every["column"], return_inverse=True)
    out = np.zeros(len(columns), COUNT_TYPE)
    out["column"] = columns
    for kind in ("nan", "up", "down"):
        np.add.at(out[kind], place, every[kind])
    return out


def _one_each(marks: Marks) -> Marks:
    """Per column: the highest and the lowest mark, and the first NaN, +inf and -inf."""
    value, row = marks["value"], marks["row"].astype(np.float64)
    finite = np.isfinite(value)
    picks = []
    for wanted, order in (
        (finite, -value),
        (finite, value),
        (np.isnan(value), row),
        (value == np.inf, row),
        (value == -np.inf, row),
    ):
        index = np.flatnonzero(wanted)
        index = index[np.lexsort((order[index], marks["column"][index]))]
        _, first = np.unique(marks["column"][index], return_index=True)
        picks.append(index[first])
    return marks[np.unique(np.concatenate(picks))]


def _strongest(marks: Marks, width: int) -> Marks:
    """At most a quarter as many marks as columns, so that spans of heavy-tailed signals stay small."""
    most = max(64, width // 4)
    if len(marks) <= most:
        return marks
    keep = np.argsort(-marks["score"], kind="stable")[:most]
    return marks[np.sort(keep)]


def joined(parts: list[Rows]) -> Rows:
    first = parts[0]
    if len(parts) == 1:
        return first
    return Rows(
        first.layout,
        first.first,
        first.stride,
        np.concatenate([p.steps for p in parts]),
        np.concatenate([p.times for p in parts]),
        np.concatenate([p.singles for p in parts]),
        np.concatenate([p.doubles for p in parts]),
    )
