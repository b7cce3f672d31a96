"""What one process recorded: its segments read together, each record and word taken once, and what is missing said."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from traindx.record import alive, kinds
from traindx.record.assemble import Part, signals_of
from traindx.record.format import Kind
from traindx.record.manifest import Start
from traindx.record.segment import Definitions, Segment
from traindx.run import Event, Run

ALIVE_S = 30.0  # a process that gave no sign of life for six beats is taken for dead
_PASSES = 50  # a writer that retires files faster than that is not waited for
_SEGMENT = re.compile(r"(words|(?:narrow|wide)\.\d)-(\d{6})\.tdx")


class ProcessReader:
    """Reads the folder of one process, again and again if it still grows."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self._known = Definitions()
        self._segments: dict[str, Segment] = {}

    def poll(self) -> bool:
        """Read what was added; True if there was anything."""
        changed = False
        for _ in range(_PASSES):
            steady, news = self._pass()
            changed |= news
            if steady:
                break
        return changed

    def _pass(self) -> tuple[bool, bool]:
        """One look at all files: whether none of them went away meanwhile, and whether there was news.

        Records only move when a file is retired: what is still needed of it is in other files before it goes. So a look during
        which no file went away has seen everything. It begins with two listings because one alone can miss both a file that
        goes and the new one that takes over. What was read of files that are gone is kept until there was such a look.
        """
        before, listed = self._listed(), self._listed()
        steady, news = before.keys() <= listed.keys(), False
        for name, ring in listed.items():
            segment = self._segments.setdefault(name, Segment(self.start.path / name, ring, self._known))
            try:
                news |= segment.read()
            except FileNotFoundError:
                steady = False
        for segment in self._segments.values():
            segment.solve()
        if not steady or not listed.keys() <= self._listed().keys():
            return False, news
        gone = self._segments.keys() - listed.keys()
        for name in gone:
            del self._segments[name]
        return True, news or bool(gone)

    def _listed(self) -> dict[str, str]:
        found = {}
        for path in self.start.path.iterdir():
            if (match := _SEGMENT.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
                found[path.name] = match[1]
        return dict(sorted(found.items()))

    # -- what it amounts to -------------------------------------------------------------------------------------------

    @property
    def _own(self) -> list[Segment]:
        """The segments of this process: of files that were mixed in, the fewer bytes are the strangers."""
        size: Counter[int | None] = Counter()
        for segment in self._segments.values():
            size[segment.stream] += segment.offset
        stream = size.most_common(1)[0][0] if size else None
        return [s for s in self._segments.values() if s.stream in (stream, None)]

    @property
    def created(self) -> float | None:
        """When the process began to record."""
        times = [s.header.get("created") for s in self._own]
        return next((float(t) for t in times if isinstance(t, int | float)), None)

    @property
    def pulse(self) -> dict[str, Any]:
        """Its last sign of life."""
        beats = {seq: value for s in self._own for seq, (kind, value) in s.words.items() if kind in (Kind.BEAT, Kind.END)}
        return beats[max(beats)] if beats else {}

    def run(self, *, last: bool = False) -> Run:
        """Everything this process recorded; `last` gives up what was read on the way, for it is large."""
        own, pulse = self._own, self.pulse
        parts = self._parts(own)
        losses = list(self._losses(parts, pulse))
        if last:
            for segment in self._segments.values():
                segment.forget()
        signals, notes = signals_of(parts, self._known.names)
        facts: dict[str, Any] = {"rank": self.start.rank}
        if self.created is not None:
            facts["started"] = self.created
        events: list[Event] = []
        said: list[str] = []
        for _, (kind, value) in sorted({seq: word for s in own for seq, word in s.words.items()}.items()):
            if kind == Kind.FACTS:
                facts.update(value)
            elif kind == Kind.EVENTS:
                events += [Event(step, what, data, when) for step, what, data, when in value]
            elif kind == Kind.NOTES:
                said += value
        if "how" in pulse or "ended" not in facts:
            facts["ended"] = ended_by(pulse)
        if strange := kinds.odd(facts):
            some = (
                "1 fact is not what it should be and was"
                if len(strange) == 1
                else f"{len(strange)} facts are not what they should be and were"
            )
            said.append(f"{self.start.path.name}: {some} left out: {strange[0]}")
            facts = {name: value for name, value in facts.items() if name not in strange}
        every = (*said, *notes, *losses, *self._damages(own, pulse))
        return Run(signals, facts, tuple(sorted(events, key=lambda e: e.step)), every, str(self.start.path), "record")

    def _parts(self, own: list[Segment]) -> list[Part]:
        parts = {i: Part(layout) for i, layout in self._known.layouts.items()}
        for segment in own:
            for identity, rows in segment.rows.items():
                (parts[identity].full if segment.level == 0 else parts[identity].thin).extend(rows)
            for identity, spans in segment.spans.items():
                parts[identity].spans.extend(spans)
        return [p for p in parts.values() if p.full or p.thin or p.spans]

    def _losses(self, parts: list[Part], pulse: Mapping[str, Any]) -> Iterator[str]:
        """Records that were made and are in no file, and those that never got so far."""
        place, made = self.start.path.name, pulse.get("made")
        if not pulse:
            yield f"{place}: its facts, events and ending are not there"
        if not isinstance(made, dict) or ended_by(pulse) == "running":
            made = {}
        for part in parts:
            lost, near = part.missing(_count(made.pop(str(part.layout.identity), 0)))
            if lost:
                where = "before the first that is left" if near is None else f"after step {near}"
                yield f"{place}: {lost} records of {part.title} are lost, {where}"
        gone = sum(_count(n) for n in made.values())
        if gone:
            yield f"{place}: {gone} records are lost with the files that held them"
        if dropped := _count(pulse.get("dropped")):
            yield f"{place}: {dropped} records came faster than they could be written and were left out"
        if lost := _count(pulse.get("lost")):
            yield f"{place}: {lost} records were lost while the disk refused to take them"
        odd = pulse.get("odd")
        for what, count in odd.items() if isinstance(odd, dict) else ():
            yield f"{place}: left out while recording: {count} {what}"

    def _damages(self, own: list[Segment], pulse: Mapping[str, Any]) -> Iterator[str]:
        live = ended_by(pulse) == "running"
        for name, segment in self._segments.items():
            if segment in own:
                yield from segment.damages(live=live)
            else:
                yield f"{self.start.path.name}/{name}: belongs to another process and was left out"


def ended_by(pulse: Mapping[str, Any], now: float | None = None) -> str:
    """How a process left: its own word, else killed where it is seen to be gone, else by the age of its last sign of life."""
    if "how" in pulse:
        return str(pulse["how"])
    if alive.gone(pulse.get("where"), pulse.get("pid")):
        return "killed"
    last = pulse.get("time")
    heard = isinstance(last, int | float) and abs((time.time() if now is None else now) - last) < ALIVE_S
    return "running" if heard else "killed"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
