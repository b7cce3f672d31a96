"""The wire format of protocol buffers, as much as logs need: fields of one message, lengths checked before use."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MOST_FIELDS = 100_000  # of one message

Field = tuple[int, int, "int | bytes"]  # number, wire type, value


class Malformed(ValueError):
    """The bytes are not a message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer and where it ends."""
    value = shift = 0
    end = min(len(data), at + 10)
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise Malformed("a number runs over its end")


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in order; numbers as int, everything else as bytes. Groups are not used by any log."""
    at = count = 0
    size = len(data)
    while at < size:
        key, at = varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            if length > size - at:
                raise Malformed("a field is longer than its message")
            value = data[at : at + length]
            at += length
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
            if length > size - at:
                raise Malformed("a number is cut off")
            value = data[at : at + length]
            at += length
        else:
            raise Malformed(f"unknown wire type {kind}")
        yield key >> 3, kind, value
        count += 1
        if count > MOST_FIELDS:
            raise Malformed("too many fields")


def signed(value: int) -> int:
    """A variable-length integer as the signed 64-bit number it stands for."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def double(value: bytes) -> float:
    return float(struct.unpack("<d", value)[0])


def single(value: bytes) -> float:
    return float(struct.unpack("<f", value)[0])


def text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")
