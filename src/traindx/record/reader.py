"""Reading a record: the frames of each process, what is damaged in them, and the incremental reader of a live run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx.errors import NothingReadable
from traindx.record.assemble import Part, signals_of
from traindx.record.format import (
    PROLOGUE,
    VERSION,
    Frame,
    Gap,
    Kind,
    Layout,
    Rows,
    Span,
    from_json,
    names_text,
    scan,
    unpack_rows,
    unpack_span,
    version_of,
)
from traindx.record.manifest import MANIFEST, Start, newer, read_manifest, starts
from traindx.record.ranks import merge_ranks
from traindx.record.tiers import joined
from traindx.run import Event, Run

_SEGMENT = re.compile(r"(words|(?:narrow|wide)\.\d)-(\d{6})\.tdx")
ALIVE_S = 30.0  # a process that gave no sign for six beats is taken for dead


@dataclass
class Segment:
    """What was read of one file so far."""

    ring: str
    offset: int = 0
    rows: dict[int, list[Rows]] = field(default_factory=dict)  # by layout
    spans: dict[int, list[Span]] = field(default_factory=dict)
    riddles: list[Frame] = field(default_factory=list)  # frames whose layout is not yet known
    gaps: list[Gap] = field(default_factory=list)
    unread: int = 0  # whole frames that could not be understood
    foreign: bool = False

    @property
    def level(self) -> int:
        return int(self.ring.rsplit(".", 1)[1]) if "." in self.ring else 0


class ProcessReader:
    """Reads the folder of one process, again and again if it still grows."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.header: dict[str, Any] = {}
        self.pulse: dict[str, Any] = {}
        self._pulse_seq = -1
        self._segments: dict[str, Segment] = {}
        self._layouts: dict[int, Layout] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._facts: dict[int, dict[str, Any]] = {}
        self._events: dict[int, list[Event]] = {}
        self._notes: dict[int, list[str]] = {}

    def poll(self) -> bool:
        """Read what was added; True if there was anything."""
        changed = False
        for _ in range(10):
            again, news = self._pass()
            changed |= news
            if not again:
                break
        return changed

    def _pass(self) -> tuple[bool, bool]:
        """One look at all files: whether another is needed because files went away meanwhile, and whether there was news."""
        listed = self._listed()
        gone = [name for name in self._segments if name not in listed and not name.startswith("words")]
        for name in gone:
            del self._segments[name]  # retired: what it held is in the coarser levels or in the newest segment
        news, again = bool(gone), False
        for name, ring in listed.items():
            try:
                news |= self._read(name, ring)
            except FileNotFoundError:
                again = True
        self._solve()
        return again or listed.keys() != self._listed().keys(), news

    def _listed(self) -> dict[str, str]:
        found = {}
        for path in self.start.path.iterdir():
            if (match := _SEGMENT.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
                found[path.name] = match[1]
        return dict(sorted(found.items()))

    def _read(self, name: str, ring: str) -> bool:
        segment = self._segments.setdefault(name, Segment(ring))
        with (self.start.path / name).open("rb") as file:
            file.seek(0, 2)
            if file.tell() < segment.offset:  # cut while we watched: begin again
                segment = self._segments[name] = Segment(ring)
            file.seek(segment.offset)
            data = file.read()
        if not data:
            return False
        at = 0
        if not segment.offset:
            if len(data) < PROLOGUE.size:
                segment.gaps = [Gap(0, len(data), torn=True)]
                return False
            at = self._open(segment, data)
        frames, gaps, end = scan(data, at)
        base = segment.offset
        segment.gaps = [g for g in segment.gaps if not g.torn] + [Gap(base + g.start, base + g.end, g.torn) for g in gaps]
        segment.offset += end
        for frame in frames:
            self._take(segment, frame)
        return bool(frames)

    def _open(self, segment: Segment, data: bytes) -> int:
        version = version_of(data)
        if version is None:  # its frames have checksums of their own, so they can be believed
            segment.gaps.append(Gap(0, PROLOGUE.size, torn=False))
        elif version > VERSION:
            raise newer(self.start.path.parent, version)
        return PROLOGUE.size

    def _take(self, segment: Segment, frame: Frame) -> None:
        try:
            self._understand(segment, frame)
        except KeyError:
            segment.riddles.append(frame)
        except (ValueError, TypeError, IndexError):
            segment.unread += 1

    def _understand(self, segment: Segment, frame: Frame) -> None:
        kind = frame.kind
        if kind == Kind.ROWS:
            rows = unpack_rows(frame.payload, self._layouts)
            pieces = segment.rows.setdefault(rows.layout, [])
            pieces.append(rows)
            if len(pieces) >= 64:
                segment.rows[rows.layout] = _fewer(pieces)
        elif kind == Kind.SPAN:
            span = unpack_span(frame.payload, self._layouts)
            segment.spans.setdefault(span.layout, []).append(span)
        else:
            self._understand_words(segment, kind, frame.seq, from_json(frame.payload))

    def _understand_words(self, segment: Segment, kind: int, seq: int, value: Any) -> None:
        if kind == Kind.HEADER:
            self.header = self.header or dict(value)
            segment.foreign = (value["rank"], value["start"]) != (self.start.rank, self.start.number)
        elif kind == Kind.NAMES:
            names = tuple(str(n) for n in value)
            self._names[names_text(names)[0]] = names
        elif kind == Kind.LAYOUT:
            layout = Layout.of(value)
            self._layouts[layout.identity] = layout
        elif kind == Kind.FACTS:
            self._facts[seq] = dict(value)
        elif kind == Kind.EVENTS:
            self._events[seq] = [Event(int(s), str(k), dict(d), t) for s, k, d, t in value]
        elif kind == Kind.NOTES:
            self._notes[seq] = [str(n) for n in value]
        elif kind in (Kind.BEAT, Kind.END) and seq > self._pulse_seq:
            self.pulse, self._pulse_seq = dict(value), seq

    def _solve(self) -> None:
        """Frames that came before the second copy of their layout, the first being damaged."""
        for segment in self._segments.values():
            riddles, segment.riddles = segment.riddles, []
            for frame in riddles:
                self._take(segment, frame)

    # -- what it amounts to -------------------------------------------------------------------------------------------

    @property
    def ended(self) -> str:
        return ended_by(self.pulse)

    def run(self) -> Run:
        """Everything this process recorded."""
        parts = self._parts()
        signals, notes = signals_of(parts, self._names)
        facts: dict[str, Any] = {"rank": self.start.rank}
        if isinstance(self.header.get("created"), int | float):
            facts["started"] = self.header["created"]
        for _, own in sorted(self._facts.items()):
            facts.update(own)
        facts["ended"] = self.ended if "how" in self.pulse or "ended" not in facts else facts["ended"]
        events = [e for _, own in sorted(self._events.items()) for e in own]
        said = [n for _, own in sorted(self._notes.items()) for n in own]
        every = (*said, *notes, *self._losses(parts), *self._damages())
        return Run(signals, facts, tuple(sorted(events, key=lambda e: e.step)), every, str(self.start.path), "record")

    def _parts(self) -> list[Part]:
        parts = {i: Part(layout) for i, layout in self._layouts.items()}
        for segment in self._segments.values():
            for identity, rows in segment.rows.items():
                (parts[identity].full if segment.level == 0 else parts[identity].thin).extend(rows)
            for identity, spans in segment.spans.items():
                parts[identity].spans.extend(spans)
        return [p for p in parts.values() if p.full or p.thin or p.spans]

    def _losses(self, parts: list[Part]) -> Iterator[str]:
        made = self.pulse.get("made")
        made = made if isinstance(made, dict) else {}
        for part in parts:
            promised = made.get(str(part.layout.identity), 0)
            lost, near = part.missing(promised if isinstance(promised, int) else 0)
            if lost:
                where = "before the first that is left" if near is None else f"after step {near}"
                yield f"{self._place}: {lost} records of {part.title} are lost, {where}"
        known = {str(p.layout.identity) for p in parts}
        gone = sum(n for i, n in made.items() if i not in known and isinstance(n, int))
        if gone:
            yield f"{self._place}: {gone} records are lost"
        if self.pulse.get("dropped"):
            yield f"{self._place}: {self.pulse['dropped']} records came faster than they could be written and were left out"
        if self.pulse.get("lost"):
            yield f"{self._place}: {self.pulse['lost']} records were lost while the disk refused to take them"
        odd = self.pulse.get("odd")
        for what, count in odd.items() if isinstance(odd, dict) else ():
            yield f"{self._place}: left out while recording: {count} {what}"

    def _damages(self) -> Iterator[str]:
        live = self.ended == "running"
        for name, segment in self._segments.items():
            file = f"{self._place}/{name}"
            torn = [g for g in segment.gaps if g.torn]
            bad = [g for g in segment.gaps if not g.torn]
            if bad:
                size = sum(g.end - g.start for g in bad)
                yield f"{file}: {len(bad)} damaged place(s), {size} bytes, first at byte {bad[0].start}; the rest was read"
            if torn and not live:
                yield f"{file}: ends inside a batch, at byte {torn[0].start}; what came before was read"
            unread = segment.unread + len(segment.riddles)
            if unread:
                yield f"{file}: {unread} batch(es) could not be understood and were left out"
            if segment.foreign:
                yield f"{file}: its header names another process; it may have been copied here from another run"

    @property
    def _place(self) -> str:
        return self.start.path.name


def ended_by(pulse: Mapping[str, Any], now: float | None = None) -> str:
    """How a process left: its own word, else running or killed by the age of its last sign of life."""
    if "how" in pulse:
        return str(pulse["how"])
    last = pulse.get("time")
    alive = isinstance(last, int | float) and abs((time.time() if now is None else now) - last) < ALIVE_S
    return "running" if alive else "killed"


def _fewer(pieces: list[Rows]) -> list[Rows]:
    """The same records in fewer pieces, where they follow one another."""
    out: list[list[Rows]] = []
    for piece in pieces:
        if out and out[-1][-1].last + piece.stride == piece.first and out[-1][-1].stride == piece.stride:
            out[-1].append(piece)
        else:
            out.append([piece])
    return [joined(group) for group in out]


class Follower:
    """A live run, read as it grows: `poll()` says whether there is news, `run` is everything so far."""

    def __init__(self, path: str | Path, rank: int = 0) -> None:
        self.path, self.rank = Path(path), rank
        self._processes: dict[int, ProcessReader] = {}
        self._run: Run | None = None

    def poll(self) -> bool:
        """Read what was added since the last time; True if there was anything."""
        news = False
        for start in starts(self.path):
            if start.rank == self.rank:
                reader = self._processes.setdefault(start.number, ProcessReader(start))
                news |= reader.poll()
        if news:
            self._run = None
        return news

    @property
    def run(self) -> Run:
        """The run so far: process starts joined, the later believed where steps overlap."""
        if self._run is None:
            self._run = _joined_starts(self.path, [r for _, r in sorted(self._processes.items())])
        return self._run


def _joined_starts(path: Path, readers: list[ProcessReader]) -> Run:
    out: Run | None = None
    notes: list[str] = []
    for before, reader in zip([None, *readers], readers):
        run = reader.run()
        out = run if out is None else out.then(run)
        if before is not None and _overlap(before, reader):
            notes.append(
                f"{before.start.path.name} was still being written when {reader.start.path.name} began: "
                "two processes recorded as the same rank; the later start is believed where their steps overlap"
            )
    out = out if out is not None else Run(kind="record")
    trouble = read_manifest(path).trouble
    if trouble:
        notes.append(f"{trouble}; the segments were read without it")
    return Run(out.signals, out.facts, out.events, (*out.notes, *notes), str(path), "record")


def _overlap(before: ProcessReader, after: ProcessReader) -> bool:
    last, begun = before.pulse.get("time"), after.header.get("created")
    return isinstance(last, int | float) and isinstance(begun, int | float) and begun < last


def follow(path: str | Path, rank: int = 0) -> Follower:
    """An incremental reader of a run that may still be growing."""
    follower = Follower(path, rank)
    follower.poll()
    return follower


def read(path: str | Path, rank: int | None = None) -> Run:
    """The run in that directory as its lowest rank (or `rank`) saw it, process starts joined, with `rank/*` signals of all."""
    runs = read_ranks(path)
    if rank is None:
        return merge_ranks(runs)
    if rank not in runs:
        raise NothingReadable(f"{path}: rank {rank} wrote nothing; there are ranks {', '.join(map(str, runs))}")
    return runs[rank]


def read_ranks(path: str | Path) -> dict[int, Run]:
    """Each rank's own run, by rank."""
    run = run_dir(path)
    try:
        read_manifest(run)
        ranks = sorted({s.rank for s in starts(run)})
    except OSError as why:
        raise NothingReadable(f"{run}: no traindx record can be read there ({why.strerror})") from None
    if not ranks:
        raise NothingReadable(f"{run}: there is no traindx record in it, or nothing was written yet")
    return {rank: follow(run, rank).run for rank in ranks}


def run_dir(path: str | Path) -> Path:
    """The run's directory, whether it or its manifest was named."""
    path = Path(path)
    return path.parent if path.name == MANIFEST and path.is_file() else path
