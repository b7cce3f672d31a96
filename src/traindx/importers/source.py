"""A file as the importers see it: opened without following links, never a device or pipe, read within limits.

Every file is taken for hostile. A length that a file states about itself is compared with the file before anything is
allocated, text comes in lines of bounded length, and nothing that stands inside a log is ever used as a path.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from traindx import opening
from traindx.errors import EnvironmentFault, NothingReadable

MEGABYTE = 1 << 20
MAX_BYTES = 4 << 30  # bytes read of one file: 4 GiB of text is 40 million lines of log
MAX_WHOLE = 64 * MEGABYTE  # files that have to be parsed in one piece (JSON): parsed objects take ten times as much
MAX_LINE = 4 * MEGABYTE  # one line of text
MAX_STDIN = 512 * MEGABYTE
MAX_CELLS = 30_000_000  # numbers kept of one file: 16 to 24 bytes each stay well under 1 GB
MAX_COLUMNS = 5_000

_NOT_LOGS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "a gzip archive; unpack it first (compressed logs are not opened)"),
    (b"PK\x03\x04", "a zip archive (or a PyTorch checkpoint); unpack it first, checkpoints are never loaded"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ\x90", "a program (Windows)"),
    (b"\x93NUMPY", "a NumPy array without names"),
    (b"\x89HDF", "an HDF5 file (probably weights)"),
    (b"\x80\x02", "a pickle, which is never loaded"),
    (b"\x80\x03", "a pickle, which is never loaded"),
    (b"\x80\x04", "a pickle, which is never loaded"),
    (b"\x80\x05", "a pickle, which is never loaded"),
    (b"version https://git-lfs", "a git-LFS pointer; run `git lfs pull` to get the file itself"),
    (b"<!DOCTYPE", "an HTML page, perhaps an error page saved in place of the log"),
    (b"<!doctype", "an HTML page, perhaps an error page saved in place of the log"),
    (b"<html", "an HTML page, perhaps an error page saved in place of the log"),
)


@dataclass(frozen=True)
class Source:
    """One file, or bytes that came from elsewhere (stdin); `name` is what messages show."""

    name: str
    path: Path | None = None
    data: bytes | None = field(default=None, repr=False)
    linked: bool = False  # the user named this very path, so it may be a link

    @classmethod
    def of(cls, path: str | Path, *, linked: bool = False) -> Source:
        return cls(str(path), Path(path), linked=linked)

    @property
    def stem(self) -> str:
        return self.path.name if self.path is not None else self.name

    @cached_property
    def size(self) -> int:
        """Bytes that may be read: the file's length, but of a sparse file only as much as is really stored."""
        if self.data is not None:
            return len(self.data)
        with self.open() as file:
            info = os.fstat(file.fileno())
        stored = getattr(info, "st_blocks", info.st_size // 512 + 1) * 512
        sparse = info.st_size > 64 * MEGABYTE and stored < info.st_size // 4
        return min(stored if sparse else info.st_size, MAX_BYTES)

    def open(self) -> BinaryIO:
        """The bytes, for reading only; devices, pipes, sockets and (unless named by the user) links are refused."""
        if self.data is not None:
            return io.BytesIO(self.data)
        assert self.path is not None
        try:
            return opening.opened(self.path, named=self.linked)
        except FileNotFoundError:
            raise NothingReadable(f"{self.name}: there is no such file") from None
        except PermissionError:
            raise EnvironmentFault(f"{self.name}: no permission to read it") from None
        except opening.Refused as why:
            raise NothingReadable(f"{self.name}: {why}") from None
        except (OSError, ValueError) as why:
            raise NothingReadable(f"{self.name}: cannot be opened: {why}") from None

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB."""
        with self.open() as file:
            return file.read(65536)

    @cached_property
    def text_head(self) -> str:
        """The first 64 KiB as text; a character cut at the end is left out."""
        return decode(self.head)

    @cached_property
    def binary(self) -> bool:
        """Whether the file is hardly text."""
        return looks_binary(self.head)

    def whole(self, limit: int = MAX_WHOLE) -> bytes:
        """All bytes up to `limit`."""
        with self.open() as file:
            return file.read(min(limit, self.size))

    def refuse_known(self) -> None:
        """Raise with its name when the file is something that is certainly not a log."""
        for magic, what in _NOT_LOGS:
            if self.head.startswith(magic):
                raise NothingReadable(f"{self.name}: is {what}; no training log in it was read")


def encoding_of(head: bytes) -> str:
    """The encoding a file seems to have: by its mark, by its zeros, else UTF-8, else Latin-1."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    zeros = head[:2000]
    if len(zeros) >= 8 and zeros[1::2].count(0) > len(zeros) // 3 and zeros[::2].count(0) == 0:
        return "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return "utf-8" if head.count(b"\xef\xbf\xbd") else _worse(head)
    return "utf-8"


def _worse(head: bytes) -> str:
    bad = head.decode("utf-8", errors="replace").count("\ufffd")
    return "utf-8" if bad < len(head) / 1000 else "latin-1"


def decode(data: bytes) -> str:
    """Text of bytes by `encoding_of`; what cannot be read becomes U+FFFD, zeros are left out."""
    coder = codecs.getincrementaldecoder(encoding_of(data[:65536]))(errors="replace")
    return coder.decode(data, final=False).replace("\x00", "")


def looks_binary(head: bytes) -> bool:
    """Whether these bytes are hardly text."""
    if not head or encoding_of(head).startswith("utf-16"):
        return False
    sample = head.strip(b"\x00")[:4096]  # the holes of a sparse file read as zeros: one cut off while it was written
    odd = sum(sample.count(c) for c in range(32) if c not in (8, 9, 10, 12, 13, 27))
    return odd > 0.05 * len(sample) or not sample


@dataclass
class Lines:
    """The lines of a text, ends of lines of every kind; lines that are too long are left out and counted."""

    source: Source
    longest: int = MAX_LINE
    cut: int = 0  # lines left out
    count: int = 0

    def __iter__(self) -> Iterator[str]:
        coder = codecs.getincrementaldecoder(encoding_of(self.source.head))(errors="replace")
        rest, skipping, left = "", False, self.source.size
        with self.source.open() as file:
            while left > 0 and (block := file.read(min(MEGABYTE, left))):
                left -= len(block)
                text = (rest + coder.decode(block, final=left <= 0)).replace("\x00", "").replace("\r\n", "\n")
                held = "\r" if text.endswith("\r") and left > 0 else ""  # the other half of an end of line may follow
                parts = text[: len(text) - len(held)].replace("\r", "\n").split("\n")
                rest = parts.pop() + held
                if parts and skipping:
                    parts, skipping = parts[1:], False
                yield from self._within(parts)
                if skipping or len(rest) > self.longest:
                    self.cut += not skipping
                    rest, skipping = "", True
        if rest and not skipping:
            yield from self._within([rest])

    def _within(self, parts: list[str]) -> Iterator[str]:
        for line in parts:
            self.count += 1
            if len(line) <= self.longest:
                yield line
            else:
                self.cut += 1
