"""Reading one segment file, from where it was left off: its whole frames, understood, and what is damaged in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.record.format import (
    MOST_PAYLOAD,
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
from traindx.record.manifest import newer
from traindx.record.tiers import joined

_AT_ONCE = 2 * MOST_PAYLOAD  # bytes: at least one whole frame, whatever its size
_MOST_BYTES = 1 << 30  # of a segment; we write at most a few dozen megabytes
_PIECES = 64  # batches of one layout that are joined into one


@dataclass
class Definitions:
    """Layouts and column names met anywhere in a process's files, by identity."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class Segment:
    """What was read of one file so far."""

    path: Path
    ring: str
    known: Definitions
    offset: int = 0
    stream: int | None = None  # whose file it is: the first frame says so
    header: dict[str, Any] = field(default_factory=dict)
    words: dict[int, tuple[int, Any]] = field(default_factory=dict)  # seq → kind, value
    rows: dict[int, list[Rows]] = field(default_factory=dict)  # by layout
    loose: Counter[int] = field(default_factory=Counter)  # how many of the last batches are not yet joined
    spans: dict[int, list[Span]] = field(default_factory=dict)
    riddles: list[Frame] = field(default_factory=list)  # frames whose layout is not yet known
    gaps: list[Gap] = field(default_factory=list)
    unread: int = 0  # whole frames that could not be understood
    trouble: str | None = None

    @property
    def level(self) -> int:
        return int(self.ring.rsplit(".", 1)[1]) if "." in self.ring else 0

    def read(self) -> bool:
        """Take in what was added; True if there were whole frames. FileNotFoundError when the file is gone."""
        news = False
        while (read := self._read_some()) is not None:
            news |= read
        return news

    def _read_some(self) -> bool | None:
        """Take in the next part of the file: whether there were whole frames in it; None when there is no more."""
        self.trouble = None
        try:
            data = self._fresh_bytes()
        except FileNotFoundError:
            raise
        except OSError as why:
            self.trouble = why.strerror or str(why)
            return None
        if not data:
            return None
        at = 0
        if not self.offset:
            if len(data) < PROLOGUE.size:
                self.gaps = [Gap(0, len(data), torn=True)]
                return None
            at = self._prologue(data)
        frames, gaps, end = scan(data, at)
        base = self.offset
        self.gaps = [g for g in self.gaps if not g.torn] + [Gap(base + g.start, base + g.end, g.torn) for g in gaps]
        self.offset += end
        for frame in frames:
            self._take(frame)
        return bool(frames) if end > at else None

    def solve(self) -> None:
        """Try again the frames that came before the second copy of their layout, the first being damaged."""
        riddles, self.riddles = self.riddles, []
        for frame in riddles:
            self._take(frame)

    def forget(self) -> None:
        """Let go of the numbers."""
        self.rows, self.spans = {}, {}

    def damages(self, *, live: bool) -> Iterator[str]:
        """What is wrong with it, in sentences; the end of a file that still grows may be unfinished."""
        name = f"{self.path.parent.name}/{self.path.name}"
        if self.trouble:
            yield f"{name}: cannot be read ({self.trouble})"
        torn = [g for g in self.gaps if g.torn]
        bad = [g for g in self.gaps if not g.torn]
        if bad:
            size = sum(g.end - g.start for g in bad)
            places = "1 damaged place" if len(bad) == 1 else f"{len(bad)} damaged places"
            yield f"{name}: {places} ({size} bytes, the first at byte {bad[0].start}); the rest was read"
        if torn and not live:
            yield f"{name}: ends inside a batch, at byte {torn[0].start}; what came before was read"
        unread = self.unread + len(self.riddles)
        if unread:
            yield f"{name}: {unread} batches could not be understood and were left out"

    def _fresh_bytes(self) -> bytes:
        with opening.opened(self.path) as file:
            if file.seek(0, 2) < self.offset:  # cut while we watched: what was read stays, and that is damage
                self.gaps.append(Gap(0, 0, torn=False))
                return b""
            if self.offset >= _MOST_BYTES:
                self.trouble = f"larger than any segment of ours; only its first {_MOST_BYTES} bytes were read"
                return b""
            file.seek(self.offset)
            return file.read(_AT_ONCE)

    def _prologue(self, data: bytes) -> int:
        version = version_of(data)
        if version is None:  # its frames have checksums of their own, so they can be believed
            self.gaps.append(Gap(0, PROLOGUE.size, torn=False))
        elif version > VERSION:
            raise newer(self.path.parent.parent, version)
        return PROLOGUE.size

    def _take(self, frame: Frame) -> None:
        self.stream = frame.stream if self.stream is None else self.stream
        if frame.stream != self.stream:
            self.unread += 1
            return
        try:
            self._understand(frame)
        except KeyError:
            self.riddles.append(frame)
        except (ValueError, TypeError, IndexError, OverflowError):
            self.unread += 1

    def _understand(self, frame: Frame) -> None:
        if frame.kind == Kind.ROWS:
            rows = unpack_rows(frame.payload, self.known.layouts)
            pieces = self.rows.setdefault(rows.layout, [])
            pieces.append(rows)
            self.loose[rows.layout] += 1
            if self.loose[rows.layout] == _PIECES:  # a long run has very many small batches
                pieces[-_PIECES:] = _fewer(pieces[-_PIECES:])
                self.loose[rows.layout] = 0
        elif frame.kind == Kind.SPAN:
            span = unpack_span(frame.payload, self.known.layouts)
            self.spans.setdefault(span.layout, []).append(span)
        else:
            self._understand_words(frame.kind, frame.seq, from_json(frame.payload))

    def _understand_words(self, kind: int, seq: int, value: Any) -> None:
        if kind == Kind.HEADER:
            self.header = dict(value)
        elif kind == Kind.NAMES:
            names = tuple(str(n) for n in value)
            self.known.names[names_text(names)[0]] = names
        elif kind == Kind.LAYOUT:
            layout = Layout.of(value)
            self.known.layouts[layout.identity] = layout
        elif kind == Kind.EVENTS:
            self.words[seq] = kind, [(int(s), str(k), dict(d), t) for s, k, d, t in value]
        elif kind == Kind.NOTES:
            self.words[seq] = kind, [str(n) for n in value]
        elif kind in (Kind.FACTS, Kind.BEAT, Kind.END):
            self.words[seq] = kind, dict(value)
            if kind == Kind.BEAT:
                self._forget_beats(seq)

    def _forget_beats(self, newest: int) -> None:
        """Only the last sign of life says anything; a long run has very many."""
        for seq in [s for s, (kind, _) in self.words.items() if kind == Kind.BEAT and s != newest]:
            del self.words[seq]


def _fewer(pieces: list[Rows]) -> list[Rows]:
    """The same records in fewer pieces, where they follow one another."""
    out: list[list[Rows]] = []
    for piece in pieces:
        if out and out[-1][-1].last + piece.stride == piece.first and out[-1][-1].stride == piece.stride:
            out[-1].append(piece)
        else:
            out.append([piece])
    return [joined(group) for group in out]
