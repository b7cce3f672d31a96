"""What a trial does to its twins, recorded as any run is: ordinary rules read it (`traindx diagnose RECORD`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import DiskSink
from traindx.probes.launch.attach import attach, detach
from traindx.record import Writer
from traindx.run import Matrix, Series
from traindx.trial import Result

MOST = 4  # twins of one trial: arms of a fork are many and alike


@dataclass
class Records:
    """Where the twins of a trial are recorded."""

    place: Path
    written: list[Path] = field(default_factory=list)
    begun: int = 0


_now: list[Records] = []


@contextmanager
def recording(place: Path | None) -> Iterator[Records | None]:
    """Record the twins that are made meanwhile below `place`, a folder each; None: record nothing."""
    if place is None:
        yield None
        return
    _now.append(Records(place))
    try:
        yield _now[-1]
    finally:
        _now.pop()


@contextmanager
def recorded() -> Iterator[None]:
    """A twin's life: recorded when a recording is on and has room."""
    records = _now[-1] if _now else None
    if records is None or len(records.written) >= MOST:
        yield
        return
    records.begun += 1
    path = records.place / f"twin-{records.begun}"
    recorder = Recorder(DiskSink(path, path.name))
    observer = attach(recorder)
    try:
        yield
    finally:
        detach(observer)
        recorder.close("closed")
        if path.exists():
            records.written.append(path)


def kept(result: Result, records: Records | None) -> str:
    """Where a trial's record is: the folder of its twins, or of what it measured when no twin was updated."""
    if records is None:
        return ""
    if not records.written:
        writer = Writer(records.place / "measured", name=result.trial)
        _measured(writer, result)
        writer.close("closed")
        records.written.append(records.place / "measured")
    return str(records.place if len(records.written) > 1 else records.written[0])


def _measured(writer: Writer, result: Result) -> None:
    rows: dict[int, dict[str, Any]] = {}
    for name, signal in result.run.signals.items():
        if isinstance(signal, Matrix):
            writer.names(name, signal.names)
        values = signal.values.tolist() if isinstance(signal, Series | Matrix) else []
        for step, value in zip(signal.steps.tolist(), values, strict=True):
            rows.setdefault(step, {})[name] = value
    for step in sorted(rows):
        writer.write(step, rows[step])
    for key, value in result.run.facts.items():
        writer.fact(key, value)
