"""TFRecord framing: length, checksum of the length, data, checksum of the data; damage is stepped over and counted."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from traindx.importers.source import MEGABYTE
from traindx.run import Ints

CHUNK = 16 * MEGABYTE
MOST_RECORD = 32 * MEGABYTE  # longer ones hold pictures or graphs: stepped over unread
HEADER = struct.Struct("<QI")
_MASK = 0xA282EAD8
PAD = b"\x00" * 16


def masked(crc: int) -> int:
    """The checksum as TFRecord stores it: rotated and moved, so that checksums of checksums stay apart."""
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def checksum(data: bytes) -> int:
    return masked(google_crc32c.value(data))


UNCHECKED = checksum(b"0x12345678")  # SageMaker Debugger writes this in place of a checksum of the data


@dataclass
class Chunk:
    """Whole records within a stretch of a file: `data` is padded, `starts` and `sizes` are the records' contents."""

    data: bytes
    starts: Ints
    sizes: Ints


class Records:
    """The records of one file; `damaged` counts what was stepped over, `first_damage` is where that began."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size
        self.damaged = 0
        self.first_damage = -1
        self.large = 0
        self.cut = False
        self._known: dict[int, int] = {}

    def chunks(self) -> Iterator[Chunk]:
        base = 0  # where in the file `data` begins
        while base < self.size:
            self.file.seek(base)
            data = self.file.read(min(CHUNK, self.size - base))
            if not data:
                return
            heads, crcs, at, why = self._walk(data, self.size - base)
            if heads:
                chunk = self._checked(data, heads, crcs, at, base)
                if len(chunk.starts):
                    yield chunk
            if why == "bad":
                self._damage(base + at)
                at = self._resync(data, at + 1)
            elif why == "large":
                at = self._step_over(data, at)
            elif why == "end":
                self.cut = True
                return
            elif at == 0:
                at = len(data)
            base += at

    def _walk(self, data: bytes, left: int) -> tuple[array[int], array[int], int, str]:
        """Records from the start of `data` on: where each begins, the checksum of its data, where and why it stopped.

        The reasons are more (to be read), bad (a length that belies its checksum), large, and end (of a cut file).
        """
        heads, crcs = array("q"), array("Q")
        at, end = 0, len(data)
        unpack, crc_of, known = HEADER.unpack_from, google_crc32c.value, self._known.get
        begin, sum_up = heads.append, crcs.append
        why = "more"
        while at + 12 <= end:
            length, crc = unpack(data, at)
            if known(length) != crc and self._length_crc(length) != crc:
                why = "bad"
                break
            stop = at + 12 + length
            if stop + 4 > end:
                why = "end" if stop + 4 > left else "large" if length > MOST_RECORD or at == 0 else "more"
                break
            begin(at)
            sum_up(crc_of(data[at + 12 : stop]))
            at = stop + 4
        if at + 12 > end and end == left and at < end:
            self.cut = True
            why = "end"
        return heads, crcs, at, why

    def _length_crc(self, length: int) -> int:
        if len(self._known) > 100_000:
            self._known.clear()
        self._known[length] = crc = checksum(struct.pack("<Q", length))
        return crc

    def _checked(self, data: bytes, heads: array[int], crcs: array[int], stop: int, base: int) -> Chunk:
        """The records without those whose data differ from their checksum."""
        at = np.frombuffer(heads, np.int64)
        sizes = np.diff(at, append=stop) - 16
        stored = _four(np.frombuffer(data, np.uint8), at + 12 + sizes)
        crc = np.frombuffer(crcs, np.uint64)
        crc = (((crc >> np.uint64(15)) | (crc << np.uint64(17))) + np.uint64(_MASK)) & np.uint64(0xFFFFFFFF)
        good = (crc == stored) | (stored == UNCHECKED)
        if not good.all():
            self.damaged += int((~good).sum())
            if self.first_damage < 0:
                self.first_damage = base + int(at[np.argmin(good)])
            at, sizes = at[good], sizes[good]
        return Chunk(data + PAD, at + 12, sizes)

    def _damage(self, at: int) -> None:
        self.damaged += 1
        if self.first_damage < 0:
            self.first_damage = at

    def _step_over(self, data: bytes, at: int) -> int:
        length, _ = HEADER.unpack_from(data, at)
        self.large += 1
        return int(at + 16 + length)

    def _resync(self, data: bytes, at: int) -> int:
        """The next place that looks like the start of a record: a length that agrees with its checksum."""
        raw = np.frombuffer(data, np.uint8)[at:]
        if len(raw) < 12:
            return len(data)
        low = np.flatnonzero((raw[4:-7] == 0) & (raw[5:-6] == 0) & (raw[6:-5] == 0) & (raw[7:-4] == 0))
        low = low[low + 12 <= len(raw)]
        length = _four(raw, low)
        keep = (length > 0) & (length <= MOST_RECORD)
        low, length = low[keep], length[keep]
        if len(low) == 0:
            return max(at, len(data) - 11)
        fits = np.flatnonzero(_masked_lengths(length.astype(np.uint32)) == _four(raw, low + 8))
        return at + int(low[fits[0]]) if len(fits) else max(at, len(data) - 11)


def _four(raw: NDArray[np.uint8], at: Ints) -> NDArray[np.uint64]:
    out = raw[at].astype(np.uint64)
    for i in (1, 2, 3):
        out |= raw[at + i].astype(np.uint64) << np.uint64(8 * i)
    return out


def _table() -> NDArray[np.uint32]:
    """CRC-32C of every byte (Castagnoli's polynomial, reflected)."""
    out = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        out = np.where(out & 1, (out >> 1) ^ np.uint32(0x82F63B78), out >> 1).astype(np.uint32)
    return out


_TABLE = _table()


def _masked_lengths(length: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The stored checksum of every length below 2³², all at once."""
    crc = np.full(len(length), 0xFFFFFFFF, np.uint32)
    for shift in (0, 8, 16, 24, 32, 40, 48, 56):
        byte = (length >> np.uint32(shift)) & np.uint32(255) if shift < 32 else np.uint32(0)
        crc = _TABLE[(crc ^ byte) & np.uint32(255)] ^ (crc >> np.uint32(8))
    plain = (crc ^ np.uint32(0xFFFFFFFF)).astype(np.uint64)
    return (((plain >> np.uint64(15)) | (plain << np.uint64(17))) + np.uint64(_MASK)) & np.uint64(0xFFFFFFFF)
