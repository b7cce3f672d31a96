"""What one event of TensorBoard is made of: where a scalar's bytes lie, tensors, histograms, the HParams plug-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from traindx.importers.protobuf import Malformed, double, fields, text, varint
from traindx.run import Floats

FLOAT, DOUBLE, HALF, BF16, INT32, INT64, STRING = 1, 2, 19, 14, 3, 9, 7
_DTYPES = {FLOAT: "<f4", DOUBLE: "<f8", HALF: "<f2", INT32: "<i4", INT64: "<i8"}


@dataclass
class Histogram:
    """The moments of one histogram summary."""

    low: float
    high: float
    count: float
    total: float
    squares: float


@dataclass
class Layout:
    """Where a record of one scalar keeps what varies."""

    tag: bytes
    wall: int
    step: int
    step_size: int
    value: int
    dtype: str
    tag_at: int = 0

    def framing(self, length: int) -> list[int]:
        """Places of the bytes that hold the record together: neither tag nor anything that varies."""
        loose = {*self.varying(), *range(self.tag_at, self.tag_at + len(self.tag))}
        return [i for i in range(length) if i not in loose]

    def varying(self) -> list[int]:
        size = int(self.dtype[-1])
        return [
            *range(self.wall, self.wall + 8),
            *range(self.step, self.step + self.step_size),
            *range(self.value, self.value + size),
        ]

    def same_places(self, other: Layout) -> bool:
        return (self.wall, self.step, self.step_size, self.value, self.dtype) == (
            other.wall,
            other.step,
            other.step_size,
            other.value,
            other.dtype,
        )


def layout_of(data: bytes) -> Layout | None:
    """The layout of an event that holds exactly one scalar; None for anything else."""
    try:
        return _layout(data)
    except (Malformed, IndexError):
        return None


def _layout(data: bytes) -> Layout | None:
    at, wall, step, step_size, summary = 0, -1, 0, 0, (0, 0)
    while at < len(data):
        key, start = varint(data, at)
        if key == 0x09:
            wall, at = start, start + 8
        elif key == 0x10:
            _, at = varint(data, start)
            step, step_size = start, at - start
        elif key == 0x2A and summary == (0, 0):
            length, start = varint(data, start)
            summary, at = (start, start + length), start + length
        else:
            return None
    if wall < 0 or at != len(data) or step_size > 8 or summary[1] == 0:
        return None
    key, start = varint(data, summary[0])
    length, start = varint(data, start)
    if key != 0x0A or start + length != summary[1]:
        return None
    found = _value_layout(data, start, summary[1])
    return Layout(found[0], wall, step, step_size, found[1], found[2], found[3]) if found else None


def _value_layout(data: bytes, at: int, end: int) -> tuple[bytes, int, str, int] | None:
    """Tag, place and type of the number in a summary value, and the place of the tag."""
    tag, value, dtype, tag_at = None, -1, "<f4", 0
    while at < end:
        key, start = varint(data, at)
        if key == 0x15:
            value, at = start, start + 4
            continue
        if key & 7 != 2:
            return None
        length, start = varint(data, start)
        at = start + length
        if at > end:
            return None
        if key == 0x0A:
            tag, tag_at = data[start:at], start
        elif key == 0x42:
            inside = _tensor_layout(data, start, at)
            if inside is None:
                return None
            value, dtype = inside
        elif key != 0x4A:
            return None
    return (tag, value, dtype, tag_at) if tag is not None and value >= 0 and not tag.startswith(b"_hparams_/") else None


def _tensor_layout(data: bytes, at: int, end: int) -> tuple[int, str] | None:
    """Place and type of the one number in a tensor without dimensions."""
    dtype, value, size = 0, -1, 0
    while at < end:
        key, start = varint(data, at)
        if key == 0x08:
            dtype, at = varint(data, start)
        elif key in (0x12, 0x22, 0x2A, 0x32):
            length, start = varint(data, start)
            at = start + length
            if key == 0x12 and length:
                return None
            if key != 0x12:
                value, size = start, length
        elif key == 0x2D:
            value, size, at = start, 4, start + 4
        elif key == 0x31:
            value, size, at = start, 8, start + 8
        else:
            return None
    kind = {FLOAT: "<f4", DOUBLE: "<f8"}.get(dtype)
    return (value, kind) if kind and value >= 0 and size == int(kind[-1]) and at == end else None


def tensor_of(data: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """Type, shape and raw content of a tensor message; of strings the first one."""
    dtype, content = 0, b""
    shape: tuple[int, ...] = ()
    loose: list[bytes] = []
    for number, kind, value in fields(data):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes):
            shape = _shape(value)
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6) and isinstance(value, bytes):
            loose.append(value)
        elif number == 8 and isinstance(value, bytes):
            content = content or value
        elif number in (7, 10, 13):
            loose.append(_int_content(value, kind, dtype))
    return dtype, shape, content or b"".join(loose)


def _int_content(value: int | bytes, kind: int, dtype: int) -> bytes:
    """Repeated integers as the bytes they would have as content."""
    size = np.dtype(_DTYPES.get(dtype, "<i8")).itemsize
    numbers: list[int] = []
    if kind == 0 and isinstance(value, int):
        numbers.append(value)
    elif isinstance(value, bytes):
        at = 0
        while at < len(value):
            n, at = varint(value, at)
            numbers.append(n)
    if dtype in (HALF, BF16):
        size = 2
    return b"".join((n & ((1 << 8 * size) - 1)).to_bytes(size, "little") for n in numbers)


def _shape(data: bytes) -> tuple[int, ...]:
    out = []
    for number, kind, value in fields(data):
        if number == 2 and kind == 2 and isinstance(value, bytes):
            size = next((v for n, k, v in fields(value) if n == 1 and isinstance(v, int)), 0)
            out.append(size)
    return tuple(out)


def numbers(dtype: int, content: bytes) -> Floats | None:
    """Content as numbers; None for types that are none."""
    if dtype == BF16 and len(content) % 2 == 0:
        wide = np.frombuffer(content, "<u2").astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    kind = _DTYPES.get(dtype)
    if kind is None or len(content) % np.dtype(kind).itemsize:
        return None
    return np.frombuffer(content, kind).astype(np.float64)


def of_buckets(table: Floats) -> Histogram:
    """Moments of [left, right, count] buckets, each bucket at its middle."""
    middle, count = (table[:, 0] + table[:, 1]) / 2, table[:, 2]
    full = count > 0
    low = float(table[full, 0].min()) if full.any() else 0.0
    high = float(table[full, 1].max()) if full.any() else 0.0
    return Histogram(low, high, float(count.sum()), float((middle * count).sum()), float((middle**2 * count).sum()))


def session_hparams(meta: bytes) -> dict[str, Any]:
    """Hyper-parameters that the HParams plug-in keeps in the metadata of its first summary."""
    out: dict[str, Any] = {}
    for plugin in _all(meta, 1):
        for content in _all(plugin, 2):
            for start in _all(content, 3):
                for entry in _all(start, 1):
                    key = next((text(k) for k in _all(entry, 1)), "")
                    for value in _all(entry, 2):
                        if key and len(out) < 2000:
                            out[key[:200]] = _json_value(value)
    return out


def _all(data: bytes, number: int) -> list[bytes]:
    return [value for n, kind, value in fields(data) if n == number and kind == 2 and isinstance(value, bytes)]


def _json_value(data: bytes) -> Any:
    for number, _, value in fields(data):
        if number == 2 and isinstance(value, bytes):
            return double(value)
        if number == 3 and isinstance(value, bytes):
            return text(value)[:500]
        if number == 4:
            return bool(value)
    return None
