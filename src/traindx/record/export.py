"""A run in formats other tools read: CSV, Parquet, TensorBoard event files.

CSV and Parquet have one row per recorded number: signal, name (of the matrix column; empty for a series), step, value, time.
"""

from __future__ import annotations

import csv
import importlib
import os
import struct
import time as clock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from traindx.errors import EnvironmentFault, UsageError
from traindx.run import Matrix, Run, Series

COLUMNS = ("signal", "name", "step", "value", "time")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet takes for the start of a formula


def export(run: Run, to: str, path: str | Path) -> Path:
    """Write a run as `csv`, `parquet` (files) or `tensorboard` (a folder); gives where it went. Nothing is overwritten."""
    writers: dict[str, Callable[[Run, Path], Path]] = {"csv": _csv, "parquet": _parquet, "tensorboard": _tensorboard}
    if to not in writers:
        raise UsageError(f"cannot export to '{to}'; there are {', '.join(writers)}")
    path = Path(path)
    try:
        return writers[to](run, path)
    except OSError as why:
        raise EnvironmentFault(f"{path}: cannot write the export: {why.strerror or why}") from None


def columns(run: Run) -> Iterator[tuple[str, str, Series]]:
    """Every series, and every column of every matrix, with its signal and name."""
    for signal, found in sorted(run.signals.items()):
        if isinstance(found, Matrix):
            for name in found.names:
                own = found.column(name)
                there = ~np.isnan(own.values)  # in a matrix NaN says that nothing was read
                yield signal, name, own.where(there)
        else:
            yield signal, "", found


def guarded(text: str) -> str:
    """The text with a quote in front if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(run: Run, path: Path) -> Path:
    path = _named(path, ".csv")
    with _Whole(path) as file:
        out = csv.writer(_Text(file))
        out.writerow(COLUMNS)
        for signal, name, series in columns(run):
            plain = (guarded(signal), guarded(name))
            times = [None] * len(series) if series.times is None else series.times.tolist()
            for step, value, when in zip(series.steps.tolist(), series.values.tolist(), times):
                out.writerow((*plain, step, repr(value), "" if when is None or when != when else repr(when)))
    return path


def _parquet(run: Run, path: Path) -> Path:
    arrow, parquet = _arrow()
    path = _named(path, ".parquet")
    kinds = (arrow.string(), arrow.string(), arrow.int64(), arrow.float64(), arrow.float64())
    schema = arrow.schema(list(zip(COLUMNS, kinds)))
    with _Whole(path) as file, parquet.ParquetWriter(file, schema) as out:
        for signal, name, series in columns(run):
            n = len(series)
            times = np.full(n, np.nan) if series.times is None else series.times
            cells = ([signal] * n, [name] * n, series.steps, series.values, times)
            arrays = [arrow.array(c, kind) for c, kind in zip(cells, kinds)]
            if n:
                out.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return path


def _arrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise EnvironmentFault("Parquet needs pyarrow, which is not installed: pip install 'traindx[arrow]'") from None


# -- TensorBoard --------------------------------------------------------------------------------------------------------


def _tensorboard(run: Run, path: Path) -> Path:
    started = run.fact("started")
    began = float(started) if isinstance(started, int | float) else clock.time()
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"events.out.tfevents.{int(began):010d}.traindx"
    with _Whole(target) as file:
        _record(file, _event(began, 0, b"\x1a" + _sized(b"brain.Event:2")))
        for signal, name, series in columns(run):
            tag = _sized((f"{signal}/{name}" if name else signal).encode("utf-8", "replace"))
            times = np.full(len(series), began) if series.times is None else np.nan_to_num(series.times, nan=began)
            for step, value, when in zip(series.steps.tolist(), series.values.tolist(), times.tolist()):
                number = b"\x15" + struct.pack("<f", np.float32(value))
                _record(file, _event(when, step, b"\x2a" + _sized(b"\x0a" + _sized(b"\x0a" + tag + number))))
    return path


def _event(when: float, step: int, rest: bytes) -> bytes:
    """An Event message: wall_time (1, double), step (2, int64), then `rest` (file_version 3 or summary 5)."""
    return b"\x09" + struct.pack("<d", when) + b"\x10" + _varint(step & 0xFFFF_FFFF_FFFF_FFFF) + rest


def _record(file: BinaryIO, message: bytes) -> None:
    """One framed record: length, its masked checksum, the message, its masked checksum."""
    length = struct.pack("<Q", len(message))
    file.write(length + _masked(length) + message + _masked(message))


def _masked(data: bytes) -> bytes:
    crc32c = importlib.import_module("google_crc32c")
    crc = int(crc32c.value(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


# -- files --------------------------------------------------------------------------------------------------------------


def _named(path: Path, suffix: str) -> Path:
    return path if path.suffix == suffix else path.with_name(path.name + suffix)


class _Text:
    """Lets the csv module write into a binary file, with lone surrogates replaced."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(text.encode("utf-8", "replace"))


class _Whole:
    """A file that appears under its name only when it was written to the end, and never replaces another."""

    def __init__(self, path: Path) -> None:
        self.path, self.partial = path, path.with_name(f".{path.name}.{os.getpid()}.partial")

    def __enter__(self) -> BinaryIO:
        if self.path.exists():
            raise UsageError(f"{self.path} exists already; name another place with -o, or remove it")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.partial.open("xb", buffering=1 << 20)
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self._file.close()
            if kind is None:
                self.partial.replace(self.path)
        finally:
            self.partial.unlink(missing_ok=True)
