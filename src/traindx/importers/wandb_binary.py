"""W&B's .wandb files: blocks of 32 KiB as LevelDB's log has them, records in protocol buffers, values in JSON.

The console output that W&B kept in the file is read too: many scripts print every step but log only the evaluations.
Paths of media files that records name are never followed.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from traindx.errors import NothingReadable
from traindx.importers import axis, console, hparams, jsonlog
from traindx.importers.aliases import meaning
from traindx.importers.protobuf import Malformed, fields, text
from traindx.importers.source import MEGABYTE, Source
from traindx.importers.table import Log, Options, Rows, clean_name

MAGIC = b":W&B"
BLOCK = 32768
MOST_RECORD = 16 * MEGABYTE
MOST_CONSOLE = 64 * MEGABYTE
HISTORY, CONFIG, OUTPUT, OUTPUT_RAW, RUN, EXIT = 2, 5, 4, 13, 17, 18
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def can_read(source: Source) -> bool:
    return source.head.startswith(MAGIC)


def read(source: Source, options: Options) -> list[Log]:
    """The history of one W&B run, with its configuration and what it printed."""
    book = _Book(options)
    records = _Records()
    with source.open() as file:
        for record in records.read(file, source.size):
            book.take(record)
    logs = book.logs(source.name)
    if not logs:
        raise NothingReadable(
            f"{source.name}: a W&B file with {records.good} records but no history and no printed losses; "
            "the run logged nothing, or was cut off before it did"
        )
    for log in logs:
        if records.bad:
            log.damage(f"{records.bad} damaged records or blocks were skipped")
        if book.odd:
            log.damage(f"{book.odd} records that could not be understood were skipped")
        if not book.ended:
            log.notes.append("the file has no exit record: the run was still going, or crashed")
    return logs


class _Records:
    """Takes the log's blocks apart; damage costs the rest of a block, never what follows."""

    def __init__(self) -> None:
        self.good = self.bad = 0

    def read(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        parts: list[bytes] = []
        length = 0
        start = 7  # the file's own header: :W&B, magic, version
        for base in range(0, size, BLOCK):
            file.seek(base)
            block = file.read(min(BLOCK, size - base))
            for kind, data in self._chunks(block, start):
                if kind in (_FULL, _FIRST):
                    self.bad += bool(parts)
                    parts, length = [], 0
                elif not parts:
                    self.bad += 1
                    continue
                length += len(data)
                if length > MOST_RECORD:
                    self.bad += 1
                    parts, length = [], 0
                    continue
                parts.append(data)
                if kind in (_FULL, _LAST):
                    self.good += 1
                    yield b"".join(parts)
                    parts, length = [], 0
            start = 0
        self.bad += bool(parts)

    def _chunks(self, block: bytes, at: int) -> Iterator[tuple[int, bytes]]:
        while len(block) - at >= 7:
            crc, length, kind = struct.unpack_from("<IHB", block, at)
            if kind == 0 and length == 0 and crc == 0:
                return  # padding
            data = block[at + 7 : at + 7 + length]
            if len(data) < length or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
                self.bad += 1
                return
            if zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc:
                self.bad += 1
            else:
                yield kind, data
            at += 7 + length


class _Book:
    """Collects what the records say."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rows = Rows(options.axes)
        self.config: dict[str, Any] = {}
        self.printed: list[str] = []
        self.printed_size = 0
        self.odd = 0
        self.ended = False
        self.name = ""

    def take(self, record: bytes) -> None:
        try:
            for number, kind, value in fields(record):
                if kind == 2 and isinstance(value, bytes):
                    self._inner(number, value)
        except (Malformed, UnicodeDecodeError):
            self.odd += 1

    def _inner(self, number: int, value: bytes) -> None:
        if number == HISTORY:
            row = {key: _value(json) for key, json in _items(value)}
            self.rows.add({k: v for k, v in row.items() if not isinstance(v, dict)})
        elif number == CONFIG:
            self.config.update({key: _value(json) for key, json in _items(value)})
        elif number == RUN:
            for field, kind, inner in fields(value):
                if field == 4 and kind == 2 and isinstance(inner, bytes):
                    self.config.update({key: _value(json) for key, json in _items(inner)})
                elif field == 8 and isinstance(inner, bytes):
                    self.name = text(inner)[:200]
        elif number in (OUTPUT, OUTPUT_RAW):
            self._print(value)
        elif number == EXIT:
            self.ended = True

    def _print(self, value: bytes) -> None:
        for field, kind, inner in fields(value):
            if field == 3 and kind == 2 and isinstance(inner, bytes) and self.printed_size < MOST_CONSOLE:
                self.printed_size += len(inner)
                self.printed.append(text(inner))

    def logs(self, name: str) -> list[Log]:
        settings = hparams.collect(self.config)
        columns = self.rows.columns()
        said = self._console(name)
        if not columns:
            return [said] if said is not None else []
        log = axis.log_of(columns, self.rows.count, "wandb", name, self.rows)
        log.hparams = settings
        if self.name:
            log.facts["name"] = clean_name(self.name)
        if said is not None and _finer(said, log):
            _borrow(log, said)
        return [log]

    def _console(self, name: str) -> Log | None:
        found = console.logs_of_text("".join(self.printed), name) if self.printed else []
        if len(found) != 1:
            return None
        found[0].kind = "wandb"
        found[0].hparams = {**found[0].hparams, **hparams.collect(self.config)}
        return found[0]


def _items(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Keys and JSON values of a history, summary or configuration message."""
    for number, kind, value in fields(data):
        if number != 1 or kind != 2 or not isinstance(value, bytes):
            continue
        keys: list[str] = []
        json = b""
        for inner, wire, part in fields(value):
            if wire == 2 and isinstance(part, bytes):
                if inner in (1, 2):
                    keys.append(text(part))
                elif inner == 16:
                    json = part
        if keys:
            yield "/".join(keys), json


def _value(json: bytes) -> Any:
    if len(json) > 200_000:
        return None
    found = jsonlog.loads(text(json))
    if isinstance(found, str) and found in ("NaN", "Infinity", "-Infinity"):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[found]
    return found


def _finer(said: Log, log: Log) -> bool:
    """Whether the console shows the training loss at least five times as often as the history does, on the same count."""
    mine = max(
        (len(t) for n, t in log.tracks.items() if meaning(n).role == "loss" and meaning(n).split in ("", "train")),
        default=0,
    )
    theirs = max(
        (len(t) for n, t in said.tracks.items() if meaning(n).role == "loss" and meaning(n).split in ("", "train")),
        default=0,
    )
    forward = all(bool(np.all(np.diff(t.x) >= 0)) for t in said.tracks.values())
    return forward and theirs >= 20 and theirs >= 5 * mine and said.unit == log.unit == "step"


def _borrow(log: Log, said: Log) -> None:
    """Add what was printed for each step to a history that only has the evaluations."""
    top = max(float(t.x.max()) for t in log.tracks.values() if len(t))
    for name, track in said.tracks.items():
        m = meaning(name)
        if (
            m.role in ("loss", "duration", "grad_norm")
            and m.split in ("", "train")
            and name not in log.tracks
            and float(track.x.max()) < 2 * top + 1000
        ):
            log.tracks[name] = track
    log.shared = False
    log.notes.append(
        "the history holds only evaluations; the training loss of each step was taken from the console output kept with it"
    )
