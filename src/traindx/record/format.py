"""The bytes of a record: framed segments, each frame with its own checksum, and what may stand inside a frame.

    segment  = prologue, frame, frame, …
    prologue = mark (8) · version u16 · version inverted u16 · crc32 u32
    frame    = magic (4) · kind u8 · 3 zero bytes · stream u32 · seq u64 · length u32 · crc32 of the head u32
               · payload · crc32 of the payload, begun with the head's

All numbers are little-endian. The head has a checksum of its own, so a damaged length is never believed; after a damaged
place the reader looks for the next magic. `seq` counts the frames of one stream that carry data, from 1; frames that only
define something (headers, layouts, names) have seq 0 and are written twice, because every later batch leans on them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1
MARK = b"\x89TDXREC\n"
MAGIC = b"\xd7TDX"
PROLOGUE = struct.Struct("<8sHHI")
HEAD = struct.Struct("<4sB3xIQII")
CRC = struct.Struct("<I")
FRAME_EXTRA = HEAD.size + CRC.size
MOST_PAYLOAD = 64 << 20  # more than any frame we write: a larger length is damage, not data
MOST_WIDTH = 1 << 20  # values of one signal in one record
MOST_NUMBER = 1 << 60  # of a record


class Kind(IntEnum):
    """What a frame carries."""

    HEADER = 1  # JSON: who wrote this segment
    NAMES = 2  # JSON: names of matrix columns, referred to by the checksum of their text
    LAYOUT = 3  # JSON: which signals make up a row, referred to likewise
    ROWS = 4  # numbers: records of one layout
    SPAN = 5  # numbers: many records of one layout, summed up
    FACTS = 6  # JSON object; later ones override
    EVENTS = 7  # JSON list of [step, kind, data, time]
    NOTES = 8  # JSON list of sentences
    BEAT = 9  # JSON: alive at that time, with counts
    END = 10  # JSON: how the process left, with counts


@dataclass(frozen=True)
class Frame:
    """One whole frame as read."""

    kind: int
    stream: int
    seq: int
    payload: memoryview
    offset: int
    size: int


@dataclass(frozen=True)
class Gap:
    """Bytes of a segment that are not a whole frame."""

    start: int
    end: int
    torn: bool  # the file ends inside a frame: cut off, or still being written


def prologue(version: int = VERSION) -> bytes:
    head = PROLOGUE.pack(MARK, version, version ^ 0xFFFF, 0)[:-4]
    return head + CRC.pack(zlib.crc32(head))


def version_of(data: bytes | memoryview) -> int | None:
    """The format version a segment claims; None when its prologue is damaged or cut off."""
    if len(data) < PROLOGUE.size:
        return None
    mark, version, inverse, crc = PROLOGUE.unpack_from(data)
    whole = mark == MARK and version == inverse ^ 0xFFFF and crc == zlib.crc32(data[: PROLOGUE.size - 4])
    return int(version) if whole else None


def frame(kind: int, stream: int, seq: int, payload: bytes) -> bytes:
    head = HEAD.pack(MAGIC, kind, stream, seq, len(payload), 0)[:-4]
    crc = zlib.crc32(head)
    return b"".join((head, CRC.pack(crc), payload, CRC.pack(zlib.crc32(payload, crc))))


def scan(data: bytes, at: int = PROLOGUE.size) -> tuple[list[Frame], list[Gap], int]:
    """All whole frames from offset `at` on, the damaged places between them, and where a later scan should continue."""
    view, frames, gaps = memoryview(data), [], []
    bad: int | None = None
    while at < len(data):
        found = _frame_at(data, view, at)
        if isinstance(found, Frame):
            if bad is not None:
                gaps.append(Gap(bad, at, torn=False))
                bad = None
            frames.append(found)
            at += found.size
            continue
        if found == _SHORT and data.find(MAGIC, at + 1) < 0:
            break  # a frame begun and not ended, and nothing after it
        bad = at if bad is None else bad
        after = data.find(MAGIC, at + (found if found > 0 else 1))
        at = len(data) if after < 0 else after
    if bad is not None:
        gaps.append(Gap(bad, at, torn=False))
    if at < len(data):
        gaps.append(Gap(at, len(data), torn=True))
    return frames, gaps, at


_BAD, _SHORT = 0, -1


def _frame_at(data: bytes, view: memoryview, at: int) -> Frame | int:
    """The frame at `at`; or _SHORT, or _BAD, or the number of bytes that a frame with a damaged payload takes."""
    if len(data) - at < HEAD.size:
        return _SHORT if MAGIC.startswith(data[at : at + 4]) else _BAD
    magic, kind, stream, seq, length, head_crc = HEAD.unpack_from(data, at)
    if magic != MAGIC or length > MOST_PAYLOAD or zlib.crc32(view[at : at + HEAD.size - 4]) != head_crc:
        return _BAD
    size = int(FRAME_EXTRA + length)
    if len(data) - at < size:
        return _SHORT
    payload = view[at + HEAD.size : at + HEAD.size + length]
    (crc,) = CRC.unpack_from(data, at + HEAD.size + length)
    if zlib.crc32(payload, head_crc) != crc:
        return size
    return Frame(kind, stream, seq, payload, at, size)


# -- words ------------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    """JSON with NaN and infinities as Python reads them; numpy, sets, tuples and paths in plain form."""
    return json.dumps(value, default=_plain, separators=(",", ":"), check_circular=True).encode("ascii")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)[:1000]


def from_json(payload: memoryview | bytes) -> Any:
    """The value; ValueError when it is no JSON or is nested beyond reason."""
    try:
        return json.loads(bytes(payload))
    except RecursionError:
        raise ValueError("nested too deeply") from None


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A signal's place in a row."""

    signal: str
    width: int | None  # None: a series; else the number of values of a matrix
    double: bool  # stored in 64 bits: whole numbers beyond 2**24, or magnitudes float32 cannot hold
    names: int  # identity of the column names; 0 for a series

    @property
    def size(self) -> int:
        return 1 if self.width is None else self.width


@dataclass(frozen=True)
class Layout:
    """Which signals make up a row: first all 32-bit values, then all 64-bit ones."""

    columns: tuple[Column, ...]

    @cached_property
    def text(self) -> bytes:
        return to_json([[c.signal, c.width, int(c.double), c.names] for c in self.columns])

    @cached_property
    def identity(self) -> int:
        return zlib.crc32(self.text) or 1

    @cached_property
    def singles(self) -> int:
        return sum(c.size for c in self.columns if not c.double)

    @cached_property
    def doubles(self) -> int:
        return sum(c.size for c in self.columns if c.double)

    @property
    def width(self) -> int:
        return self.singles + self.doubles

    @cached_property
    def row_bytes(self) -> int:
        return 16 + 4 * self.singles + 8 * self.doubles

    @cached_property
    def places(self) -> tuple[tuple[Column, int], ...]:
        """Each signal with its first value's place inside its own table."""
        at, out = [0, 0], []
        for column in self.columns:
            out.append((column, at[column.double]))
            at[column.double] += column.size
        return tuple(out)

    @classmethod
    def of(cls, rows: Any) -> Layout:
        """The layout a JSON value describes; ValueError or TypeError when it describes none."""
        if not isinstance(rows, list) or not rows:
            raise ValueError("a layout is a list of signals")
        return cls(tuple(_column(row) for row in rows))


def _column(row: Any) -> Column:
    signal, width, double, names = row
    if not isinstance(signal, str) or not isinstance(names, int):
        raise ValueError("a layout needs a signal name and the identity of its column names")
    if width is not None and not (isinstance(width, int) and 0 <= width <= MOST_WIDTH):
        raise ValueError(f"no signal has {width} values")
    return Column(signal, width, bool(double), names)


@dataclass(frozen=True)
class Rows:
    """Records of one layout: numbers `first`, `first + stride`, … of those that the process made of it."""

    layout: int
    first: int
    stride: int
    steps: NDArray[np.int64]  # (R,)
    times: NDArray[np.float64]  # (R,)
    singles: NDArray[np.float32]  # (R, W)
    doubles: NDArray[np.float64]  # (R, V)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> int:
        return self.first + (len(self) - 1) * self.stride

    @property
    def tables(self) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        return self.singles, self.doubles

    def part(self, a: int, b: int) -> Rows:
        return Rows(
            self.layout,
            self.first + a * self.stride,
            self.stride,
            self.steps[a:b],
            self.times[a:b],
            self.singles[a:b],
            self.doubles[a:b],
        )


_ROWS = struct.Struct("<IIQII")


def pack_rows(rows: Rows) -> bytes:
    head = _ROWS.pack(rows.layout, len(rows), rows.first, rows.stride, 0)
    arrays = (rows.steps, rows.times, rows.singles, rows.doubles)
    return b"".join((head, *(np.ascontiguousarray(a).tobytes() for a in arrays)))


def unpack_rows(payload: memoryview, layouts: Mapping[int, Layout]) -> Rows:
    """ValueError when it does not fit its layout, KeyError when the layout is not known."""
    if len(payload) < _ROWS.size:
        raise ValueError("too short for records")
    identity, n, first, stride, _ = _ROWS.unpack_from(payload)
    layout = layouts[identity]
    if len(payload) != _ROWS.size + n * layout.row_bytes or not n or not 1 <= stride <= MOST_WIDTH or first > MOST_NUMBER:
        raise ValueError("records that do not fit their layout")
    take = _Taker(payload, _ROWS.size)
    return Rows(
        identity,
        first,
        stride,
        take("<i8", n),
        take("<f8", n),
        take("<f4", n * layout.singles).reshape(n, layout.singles),
        take("<f8", n * layout.doubles).reshape(n, layout.doubles),
    )


class _Taker:
    """Takes one array after the other out of a payload."""

    def __init__(self, payload: memoryview, at: int) -> None:
        self.payload, self.at = payload, at

    def __call__(self, kind: Any, n: int) -> NDArray[Any]:
        dtype = np.dtype(kind)
        out = np.frombuffer(self.payload, dtype, n, self.at)
        self.at += n * dtype.itemsize
        return out


# -- spans ------------------------------------------------------------------------------------------------------------

# A single value worth keeping by itself: where a signal left its surroundings, or first was not finite.
MARK_TYPE = np.dtype([("column", "<u4"), ("row", "<u8"), ("step", "<i8"), ("time", "<f8"), ("value", "<f8"), ("score", "<f4")])
COUNT_TYPE = np.dtype([("column", "<u4"), ("nan", "<u4"), ("up", "<u4"), ("down", "<u4")])
STATS = ("low", "high", "mean", "last")


@dataclass(frozen=True)
class Span:
    """Many records summed up: lowest, highest, mean and last of the finite values, how many were not, and marks."""

    layout: int
    first: int  # number of the first record
    count: int
    steps: tuple[int, int]
    time: float  # of the last record
    singles: NDArray[np.float32]  # (4, W), rows as in STATS
    doubles: NDArray[np.float64]  # (4, V)
    marks: NDArray[Any]  # MARK_TYPE; columns count through singles, then doubles
    counts: NDArray[Any]  # COUNT_TYPE; only columns with values that are not finite

    @property
    def last(self) -> int:
        return self.first + self.count - 1


_SPAN = struct.Struct("<IIQqqdII")


def pack_span(span: Span) -> bytes:
    head = _SPAN.pack(
        span.layout, span.count, span.first, span.steps[0], span.steps[1], span.time, len(span.marks), len(span.counts)
    )
    arrays = (span.singles, span.doubles, span.marks, span.counts)
    return b"".join((head, *(np.ascontiguousarray(a).tobytes() for a in arrays)))


def unpack_span(payload: memoryview, layouts: Mapping[int, Layout]) -> Span:
    """ValueError when it does not fit its layout, KeyError when the layout is not known."""
    if len(payload) < _SPAN.size:
        raise ValueError("too short for a span")
    identity, count, first, lo, hi, time, marks, counts = _SPAN.unpack_from(payload)
    layout = layouts[identity]
    size = 4 * (4 * layout.singles + 8 * layout.doubles) + marks * MARK_TYPE.itemsize + counts * COUNT_TYPE.itemsize
    if len(payload) != _SPAN.size + size or not count or first > MOST_NUMBER:
        raise ValueError("a span that does not fit its layout")
    take = _Taker(payload, _SPAN.size)
    return Span(
        identity,
        first,
        count,
        (lo, hi),
        time,
        take("<f4", 4 * layout.singles).reshape(4, layout.singles),
        take("<f8", 4 * layout.doubles).reshape(4, layout.doubles),
        take(MARK_TYPE, marks),
        take(COUNT_TYPE, counts),
    )


def names_text(names: Iterable[str]) -> tuple[int, bytes]:
    """Column names as they stand in a frame, with their identity."""
    text = to_json(list(names))
    return zlib.crc32(text) or 1, text
