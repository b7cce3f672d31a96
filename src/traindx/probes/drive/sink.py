"""Where readings go: into memory, or through `traindx.record` onto disk; and how numbers travel off their device."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from traindx import record
from traindx.errors import TraindxError
from traindx.probe import Later, Row
from traindx.probes.drive import session
from traindx.run import Event, Matrix, Run, Series, Signal


class Sink(Protocol):
    """What the recorder writes to."""

    def write(self, step: int, values: Mapping[str, Any], time: float | None = None) -> None: ...
    def block(self, names: tuple[str, ...], rows: list[tuple[int, float, tuple[float, ...]]]) -> None: ...
    def names(self, signal: str, names: tuple[str, ...]) -> None: ...
    def fact(self, key: str, value: Any) -> None: ...
    def event(self, step: int, kind: str, data: Mapping[str, Any]) -> None: ...
    def flush(self) -> None: ...
    def close(self, how: str) -> None: ...
    def run(self) -> Run: ...


class MemorySink:
    """Keeps everything in memory; `run()` makes a Run of it."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, float | list[float], tuple[str, ...] | None, float | None]]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._facts: dict[str, Any] = {}
        self._events: list[Event] = []

    def write(self, step: int, values: Mapping[str, Any], time: float | None = None) -> None:
        for signal, value in values.items():
            self._rows.setdefault(signal, []).append((step, value, self._names.get(signal), time))

    def block(self, names: tuple[str, ...], rows: list[tuple[int, float, tuple[float, ...]]]) -> None:
        for step, at, values in rows:
            self.write(step, dict(zip(names, values)), at)

    def names(self, signal: str, names: tuple[str, ...]) -> None:
        self._names[signal] = names

    def fact(self, key: str, value: Any) -> None:
        self._facts[key] = value

    def event(self, step: int, kind: str, data: Mapping[str, Any]) -> None:
        self._events.append(Event(step, kind, dict(data), time.time()))

    def flush(self) -> None:
        """Nothing to wait for."""

    def close(self, how: str) -> None:
        """Nothing to release."""

    def run(self) -> Run:
        """What was seen so far."""
        signals = {name: _signal(rows) for name, rows in self._rows.items()}
        events: dict[Any, Event] = {}
        for event in self._events:
            events[_same(event)] = event
        return Run(signals, dict(self._facts), tuple(sorted(events.values(), key=lambda e: e.step)), kind="memory")


def _same(event: Event) -> Any:
    """Events with equal keys are one event whose later word counts."""
    if "count" not in event.data:
        return id(event)
    return event.step, event.kind, str(event.data.get("what")), str(event.data.get("how"))


class DiskSink:
    """Writes a record through `traindx.record`; its folder is made when the first numbers come: no training, no trace."""

    def __init__(
        self, path: Path, name: str, rank: int = 0, *, ranked: bool = False, place: Callable[[], Path] | None = None
    ) -> None:
        self.path, self._ranked = path, ranked  # ranked: nothing is written unless this process is one of several
        self.spoken: Callable[[Any], Any] = lambda thing: thing  # how places in facts and events are written
        self._place = place  # gives the path when the first numbers come, where it cannot be known before
        self._name, self._rank = name, rank
        self._writer: record.Writer | None = None
        self._early: list[tuple[str, tuple[Any, ...]]] = []
        self.begun: list[Callable[[Path], Any]] = []  # called with the folder when the first numbers come
        self.over: list[Callable[[], None]] = []  # called when all is written

    def _do(self, what: str, *args: Any) -> None:
        if self._writer is None:
            self._early = [*self._early[-999:], (what, args)]
        else:
            getattr(self._writer, what)(*args)

    def write(self, step: int, values: Mapping[str, Any], time: float | None = None) -> None:
        if self._writer is None:
            if self._ranked and session.world() < 2:
                return
            if self._place is not None:
                self.path = self._place()
            self._writer = record.Writer(self.path, rank=self._rank or session.rank(), name=self._name)
            early, self._early = self._early, []
            for what, args in early:
                getattr(self._writer, what)(*args)
            for hear in self.begun:
                hear(self.path)
        self._writer.write(step, values, time)

    def block(self, names: tuple[str, ...], rows: list[tuple[int, float, tuple[float, ...]]]) -> None:
        if self._writer is not None:
            self._writer.block(names, rows)
        else:
            for step, at, values in rows:
                self.write(step, dict(zip(names, values)), at)

    def names(self, signal: str, names: tuple[str, ...]) -> None:
        self._do("names", signal, names)

    def fact(self, key: str, value: Any) -> None:
        self._do("fact", key, self.spoken(value))

    def event(self, step: int, kind: str, data: Mapping[str, Any]) -> None:
        self._do("event", Event(step, kind, self.spoken(dict(data)), time.time()))

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def close(self, how: str) -> None:
        if self._writer is not None:
            self._writer.close(how)
            for hear in self.over:
                hear()

    @property
    def written(self) -> bool:
        """Whether there is anything on disk."""
        return self._writer is not None

    @property
    def dropped(self) -> int:
        return self._writer.dropped if self._writer is not None else 0

    def run(self) -> Run:
        """What is on disk so far; an empty run when nothing was written or it cannot be read back."""
        if self._writer is None:
            return Run(kind="record")
        try:
            return record.read(self.path)
        except (OSError, TraindxError) as why:
            return Run(notes=(f"the record could not be read back: {why}",), source=str(self.path), kind="record")


def _signal(rows: list[tuple[int, Any, tuple[str, ...] | None, float | None]]) -> Signal:
    steps = np.array([r[0] for r in rows], np.int64)
    if not isinstance(rows[0][1], list | np.ndarray):
        return Series(steps, np.array([float(r[1]) for r in rows]), np.array([np.nan if r[3] is None else r[3] for r in rows]))
    names = tuple(dict.fromkeys(n for r in rows for n in (r[2] or ())))
    place = {n: i for i, n in enumerate(names)}
    table = np.full((len(rows), len(names)), np.nan)
    for i, (_, values, own, _) in enumerate(rows):
        table[i, [place[n] for n in own or ()]] = values
    return Matrix(steps, names, table)


class _Parcel:
    """The tensors of one record on their way to the host, in one copy per device."""

    def __init__(
        self, step: int, row: dict[str, Any], tensors: list[tuple[str, Tensor | Row | Later]], at: float | None = None
    ) -> None:
        self.step, self.row, self.time = step, row, time.time() if at is None else at
        self.things = tensors
        self.flat: list[Tensor] = []
        self.sizes: list[list[int]] = []
        self.event: Any = None
        parts: list[Tensor] = []
        for _, thing in tensors:
            own = _tensors(thing)
            self.sizes.append([t.numel() for t in own])
            parts.extend(own)
        self.things = [(signal, _stripped(thing)) for signal, thing in tensors]
        self._send(parts)

    def _send(self, parts: list[Tensor]) -> None:
        devices = {p.device for p in parts}
        kind = torch.float32 if any(d.type == "mps" for d in devices) else torch.float64
        flat = [p.detach().reshape(-1).to(kind) for p in parts]
        if devices <= {torch.device("cpu")}:
            self.flat = flat
            return
        main = next(d for d in devices if d.type != "cpu")
        block = torch.cat([p.to(main, non_blocking=True) for p in flat])
        host = torch.empty(block.shape, dtype=kind, device="cpu", pin_memory=main.type == "cuda")
        host.copy_(block, non_blocking=True)
        if main.type == "cuda":
            self.event = torch.cuda.Event()
            self.event.record()
        self.flat = [host]

    def arrived(self) -> bool:
        return self.event is None or bool(self.event.query())

    def open(self) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
        """Values by signal, and the names of the matrix signals among them."""
        row = dict(self.row)
        names: dict[str, tuple[str, ...]] = {}
        numbers = torch.cat(self.flat).numpy() if self.flat else np.empty(0)
        at = 0
        for (signal, thing), sizes in zip(self.things, self.sizes):
            lists = []
            for n in sizes:
                lists.append(numbers[at : at + n].tolist())
                at += n
            for key, value, own in _opened(signal, thing, lists):
                if own is not None and key in names:  # the same signal from two optimizers
                    own, value = (*names[key], *own), [*row[key], *value]
                row[key] = value if own is None else np.asarray(value, np.float32)
                if own is not None:
                    names[key] = own
        return row, names


def _tensors(thing: Tensor | Row | Later) -> list[Tensor]:
    if isinstance(thing, Tensor):
        return [thing]
    if isinstance(thing, Later):
        return list(thing.tensors)
    return [thing.values] if isinstance(thing.values, Tensor) else []


def _stripped(thing: Tensor | Row | Later) -> Any:
    """What remains to be known of a reading once its numbers travel elsewhere."""
    if isinstance(thing, Tensor):
        return None
    if isinstance(thing, Later):
        return thing.result
    return thing if isinstance(thing.values, list) else thing.names


def _opened(signal: str, thing: Any, lists: list[list[float]]) -> list[tuple[str, Any, tuple[str, ...] | None]]:
    if thing is None:
        return [(signal, lists[0][0], None)]
    if isinstance(thing, Row):
        return [(signal, [float(v) for v in thing.values], thing.names)]
    if isinstance(thing, tuple):
        return [(signal, lists[0], thing)]
    out: list[tuple[str, Any, tuple[str, ...] | None]] = []
    for key, value in thing(*lists).items():
        if isinstance(value, Row):
            out.append((key, [float(v) for v in value.values], value.names))
        else:
            out.append((key, float(value), None))
    return out


class Post:
    """Takes records step by step and hands them to the sink once their numbers are on the host."""

    def __init__(self, sink: Sink, arrived: Callable[[int, dict[str, Any]], None]) -> None:
        self.sink = sink
        self._arrived = arrived  # told of each record whose numbers had to travel
        self.records = 0
        self.latest: deque[tuple[int, dict[str, Any]]] = deque(maxlen=256)  # what was written, for log lines and early stopping
        self.heard: Callable[[Mapping[str, Any]], None] = lambda row: None  # told of each record that is written
        self._waiting: list[_Parcel] = []
        self._names: dict[str, tuple[str, ...]] = {}

    def send(
        self, step: int, row: dict[str, Any], tensors: list[tuple[str, Tensor | Row | Later]], at: float | None = None
    ) -> None:
        """Take a record; `at`: when it was made, if not just now."""
        if tensors or self._waiting:
            self._waiting.append(_Parcel(step, row, tensors, at))
        elif row:
            self.sink.write(step, row, time.time() if at is None else at)
            self.heard(row)
            self.records += 1
            self.latest.append((step, row))

    def block(self, names: tuple[str, ...], rows: list[tuple[int, float, tuple[float, ...]]]) -> None:
        """Take records of plain numbers that have the same signals: step, when, values."""
        told = [(step, dict(zip(names, values))) for step, _, values in rows]
        if self._waiting:
            for (step, row), (_, at, _) in zip(told, rows):
                self.send(step, row, [], at)
            return
        self.sink.block(names, rows)
        for _, row in told:
            self.heard(row)
        self.records += len(rows)
        self.latest.extend(told)

    def waiting(self) -> int:
        return len(self._waiting)

    def drain(self, *, all: bool = False) -> None:
        """Write what has arrived, in order; `all` waits for the rest."""
        while self._waiting and (all or self._waiting[0].arrived()):
            parcel = self._waiting.pop(0)
            if parcel.event is not None:
                parcel.event.synchronize()
            row, names = parcel.open()
            for signal, own in names.items():
                if self._names.get(signal) is not own:
                    if self._names.get(signal) != own:
                        self.sink.names(signal, own)
                    self._names[signal] = own
            self._arrived(parcel.step, row)
            self.sink.write(parcel.step, row, parcel.time)
            self.heard(row)
            self.records += 1
            self.latest.append((parcel.step, row))
