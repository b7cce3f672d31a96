"""TensorBoard events: from records to numbers, most of them by numpy, the odd ones one by one.

Records of one length that are equal in every byte but time, step and value have the same tag: they are decoded together.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.importers.protobuf import Malformed, double, fields, signed, single, text
from traindx.importers.source import MAX_CELLS, MAX_COLUMNS
from traindx.importers.table import clean_name
from traindx.importers.tensors import STRING, Histogram, Layout, layout_of, numbers, of_buckets, session_hparams, tensor_of
from traindx.importers.tfrecord import Chunk
from traindx.run import Floats, Ints

LONGEST_FAST = 1024  # bytes of a record that may be decoded by numpy
MOST_ROUNDS = 24  # layouts tried per length before the rest goes one by one
MOST_TEXT = 1 << 20

Parts = tuple[Ints, Ints, Floats, Floats]  # order of writing, step, time, value


@dataclass
class Decoded:
    """Everything numeric in one or more event files."""

    scalars: dict[bytes, list[Parts]] = field(default_factory=dict)
    histograms: dict[str, list[tuple[int, int, Histogram]]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    hparams: dict[str, Any] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)  # what was there next to numbers: pictures, sounds, graphs
    odd: int = 0  # events that are no messages
    seen: int = 0  # order of writing
    points: int = 0
    lost: int = 0  # points beyond the limits
    slow: int = 0  # events that were decoded one by one
    rename: Callable[[bytes, bytes], bytes] | None = None  # gives a tag another name by its metadata
    arrays: bool = False  # tensors of several numbers count by their mean

    def add(self, chunk: Chunk) -> None:
        """Decode the records of one chunk."""
        order = self.seen + np.arange(len(chunk.starts), dtype=np.int64)
        self.seen += len(chunk.starts)
        raw = np.frombuffer(chunk.data, np.uint8)
        for length in np.unique(chunk.sizes):
            at = np.flatnonzero(chunk.sizes == length)
            if len(at) < 8 or length > LONGEST_FAST or length < 16 or self.rename is not None:
                self._one_by_one(chunk, at, order)
            else:
                self._together(chunk, raw, at, order, int(length))

    # -- many at once

    def _together(self, chunk: Chunk, raw: NDArray[np.uint8], at: Ints, order: Ints, length: int) -> None:
        wide = -(-length // 8) * 8
        windows = np.lib.stride_tricks.sliding_window_view(raw, wide)
        for _ in range(MOST_ROUNDS):
            if len(at) < 8:
                break
            first = int(chunk.starts[at[0]])
            layout = layout_of(chunk.data[first : first + length])
            if layout is None:
                same = self._alike(chunk, at, first, length)
                self._one_by_one(chunk, at[same], order)
                at = at[~same]
                continue
            at = at[~self._scalars(chunk, windows, at, order, length, layout)]
        self._one_by_one(chunk, at, order)

    def _alike(self, chunk: Chunk, at: Ints, first: int, length: int) -> NDArray[np.bool_]:
        """Records that cannot be decoded together: the first one, and half of the rest so that trying stays cheap."""
        same = np.zeros(len(at), dtype=bool)
        same[: max(1, len(at) // 2)] = True
        return same

    def _scalars(self, chunk: Chunk, windows: Any, at: Ints, order: Ints, length: int, layout: Layout) -> NDArray[np.bool_]:
        """Decode all records laid out like `layout`; returns which of `at` they were."""
        start = int(chunk.starts[at[0]])
        framing = layout.framing(length)
        model = np.frombuffer(chunk.data, np.uint8)[start : start + length][framing]
        rows = windows[chunk.starts[at]]  # a copy, (m, wide)
        steps, fits = _steps(rows, layout)
        fits &= (rows[:, framing] == model).all(axis=1)
        whole, at = len(at), at[fits]
        alike = np.flatnonzero(fits)
        rows, steps = rows[fits], steps[fits]
        times = rows[:, layout.wall : layout.wall + 8].copy().view("<f8")[:, 0]
        size = int(layout.dtype[-1])
        values = np.ascontiguousarray(rows[:, layout.value : layout.value + size]).view(layout.dtype)[:, 0].astype(np.float64)
        rows[:, layout.varying()] = 0
        rows[:, length:] = 0
        groups, first_of, inverse = _grouped(rows)
        done = np.zeros(whole, dtype=bool)
        sorted_rows = np.argsort(inverse, kind="stable")
        cuts = np.searchsorted(inverse[sorted_rows], np.arange(groups + 1))
        for g in range(groups):
            start = int(chunk.starts[at[first_of[g]]])
            own = layout_of(chunk.data[start : start + length])
            if own is None or not own.same_places(layout):
                continue
            mine = sorted_rows[cuts[g] : cuts[g + 1]]
            self._put(own.tag, (order[at[mine]], steps[mine], times[mine], values[mine]))
            done[alike[mine]] = True
        return done

    def _put(self, tag: bytes, parts: Parts) -> None:
        count = len(parts[0])
        if self.points + count > MAX_CELLS or (tag not in self.scalars and len(self.scalars) >= MAX_COLUMNS):
            self.lost += count
            return
        self.points += count
        self.scalars.setdefault(tag, []).append(parts)

    # -- one at a time

    def _one_by_one(self, chunk: Chunk, at: Ints, order: Ints) -> None:
        loose: dict[bytes, list[tuple[int, int, float, float]]] = {}
        for i in at:
            start = int(chunk.starts[i])
            try:
                self._event(chunk.data[start : start + int(chunk.sizes[i])], int(order[i]), loose)
            except (Malformed, struct.error, ValueError):
                self.odd += 1
        self.slow += len(at)
        for tag, points in loose.items():
            table = np.array(points, dtype=np.float64)
            steps = np.array([p[1] for p in points], dtype=np.int64)
            self._put(tag, (table[:, 0].astype(np.int64), steps, table[:, 2], table[:, 3]))

    def _event(self, data: bytes, order: int, loose: dict[bytes, list[tuple[int, int, float, float]]]) -> None:
        wall, step, summaries = 0.0, 0, []
        for number, kind, value in fields(data):
            if number == 1 and kind == 1 and isinstance(value, bytes):
                wall = double(value)
            elif number == 2 and kind == 0 and isinstance(value, int):
                step = signed(value)
            elif number == 5 and kind == 2 and isinstance(value, bytes):
                summaries.append(value)
            elif number in (4, 9, 8):
                self._count("graphs")
        for summary in summaries:
            for number, kind, value in fields(summary):
                if number == 1 and kind == 2 and isinstance(value, bytes):
                    self._value(value, order, step, wall, loose)

    def _value(
        self, data: bytes, order: int, step: int, wall: float, loose: dict[bytes, list[tuple[int, int, float, float]]]
    ) -> None:
        tag, meta, found, tensor = b"", b"", None, b""
        for number, kind, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                tag = value
            elif number == 2 and kind == 5 and isinstance(value, bytes):
                found = single(value)
            elif number == 9 and isinstance(value, bytes):
                meta = value
            elif number == 8 and isinstance(value, bytes):
                tensor = value
            elif number == 5 and isinstance(value, bytes):
                self._histogram(tag, value, order, step)
            elif number in (4, 6):
                self._count("pictures" if number == 4 else "sounds")
        if self.rename is not None:
            tag = self.rename(tag, meta)
        if tensor:
            found = self._tensor(tag, tensor, meta, order, step)
        elif meta and tag.startswith(b"_hparams_/"):
            self.hparams.update(session_hparams(meta))
        if found is not None:
            loose.setdefault(tag, []).append((order, step, wall, found))

    def _count(self, what: str) -> None:
        self.other[what] = self.other.get(what, 0) + 1

    def _histogram(self, tag: bytes, data: bytes, order: int, step: int) -> None:
        got = {number: double(value) for number, kind, value in fields(data) if kind == 1 and isinstance(value, bytes)}
        self._keep(tag, order, step, Histogram(*(got.get(i, 0.0) for i in (1, 2, 3, 4, 5))))

    def _keep(self, tag: bytes, order: int, step: int, found: Histogram) -> None:
        self._count("histograms")
        name = clean_name(text(tag))
        if self.points < MAX_CELLS and (name in self.histograms or len(self.histograms) < MAX_COLUMNS):
            self.points += 5
            self.histograms.setdefault(name, []).append((order, step, found))

    def _tensor(self, tag: bytes, data: bytes, meta: bytes, order: int, step: int) -> float | None:
        """The number in a tensor summary; texts and histograms are kept aside, anything else is counted."""
        dtype, shape, content = tensor_of(data)
        if dtype == STRING:
            if content and len(content) <= MOST_TEXT and len(self.texts) < 100:
                self.texts.setdefault(clean_name(text(tag)), text(content))
            else:
                self._count("texts")
            return None
        found = numbers(dtype, content)
        size = math.prod(shape) if len(shape) <= 8 and all(0 <= s < 1 << 40 for s in shape) else -1
        if found is None or size != len(found):
            self._count("unreadable tensors")
            return None
        if b"histograms" in meta and len(shape) == 2 and shape[1] == 3 and len(found):
            self._keep(tag, order, step, of_buckets(found.reshape(shape)))
            return None
        if len(found) == 1 or (self.arrays and len(found)):
            return float(found.mean())
        self._count("tensors")
        return None


def _steps(rows: NDArray[np.uint8], layout: Layout) -> tuple[Ints, NDArray[np.bool_]]:
    """The steps of records laid out alike, and which of them really have a number of that many bytes there."""
    steps = np.zeros(len(rows), np.int64)
    fits = np.ones(len(rows), bool)
    for i in range(layout.step_size):
        byte = rows[:, layout.step + i]
        last = i == layout.step_size - 1
        fits &= (byte < 128) if last else (byte >= 128)
        steps |= (byte & np.uint8(127)).astype(np.int64) << (7 * i)
    return steps, fits


def _grouped(rows: NDArray[np.uint8]) -> tuple[int, Ints, Ints]:
    """Equal rows under one number: how many numbers, the first row of each, and the number of every row."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    factors = np.random.default_rng(0).integers(1, 1 << 62, words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = (words * factors).sum(axis=1, dtype=np.uint64)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    equal = (words == words[first[inverse]]).all(axis=1)
    if not equal.all():  # two different rows with one hash: compare them for real
        _, first, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        inverse = inverse.ravel()
    return len(first), first.astype(np.int64), inverse.astype(np.int64)
