"""The runs below a folder, read once and on from there while they grow. Ids are ours: nothing a client sends names a path."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traindx import diagnosis as diagnosis_
from traindx import importers
from traindx.dashboard.doctor import Answer, Doctor
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.common import sweep
from traindx.errors import TraindxError
from traindx.record import Follower, Record, follow, is_record, list_records
from traindx.report import runs as runs_
from traindx.report import sweep as sweeps
from traindx.run import Run

KEPT = 12  # runs held in memory
FRESH_S = 0.5  # a run is looked at on disk at most so often
LISTED_S = 2.0  # the folder is listed at most so often
FEW = 40  # logs that are read for the list; of more only the names are shown until each is judged
DEPTH = 3  # folders below the one served


@dataclass(frozen=True)
class Entry:
    """One run of the list."""

    id: str
    name: str
    path: Path
    kind: str
    state: str  # running, closed, killed …
    step: int | None
    updated: float | None
    ranks: int = 1
    index: int = 0  # which run of a log that holds several


@dataclass
class _Kept:
    """A run in memory, and how to continue reading it."""

    run: Run
    stamp: str
    seen: float
    version: int = 0
    follower: Follower | None = None
    diagnosis: Diagnosis | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Library:
    """Finds runs, reads them, has them judged, and keeps the last few."""

    def __init__(self, root: Path, doctor: Doctor | None = None) -> None:
        self.root, self.doctor = root, doctor or Doctor(apart=False)
        self._entries: dict[str, Entry] = {}
        self._listed = -1e9
        self._together: tuple[list[float], dict[str, Any]] = ([], {})  # when they were judged, and what was said of them
        self._cache: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._listing = threading.Lock()

    def entries(self) -> list[Entry]:
        """Every run below the folder, newest first."""
        with self._listing:
            if time.monotonic() - self._listed > LISTED_S:
                shut: list[Path] = []
                found = [_entry(r, self.root) for r in _records(self.root, shut)]
                found += [Entry(_id(p, 0), p.name, p, "record", "unreadable", None, None) for p in shut]
                found = found or self._logs()
                found.sort(key=lambda e: -(e.updated or 0.0))
                self._entries = {e.id: e for e in found}
                self._listed = time.monotonic()
            return list(self._entries.values())

    def entry(self, run_id: str) -> Entry | None:
        """The run of that id; the list is read again when it is not known."""
        if run_id not in self._entries:
            self.entries()
        return self._entries.get(run_id)

    def run(self, run_id: str) -> Run | None:
        """The run, read on from where it was when it has grown."""
        kept = self._kept(run_id)
        return kept.run if kept else None

    def newest(self, run_id: str) -> tuple[Run | None, int]:
        """The run with a number that rises whenever it has grown."""
        kept = self._kept(run_id)
        return (kept.run, kept.version) if kept else (None, 0)

    def at_hand(self, run_id: str) -> tuple[Run, int] | None:
        """The same without looking at the disk; None when the last look was too long ago."""
        kept = self._cache.get(run_id)
        fresh = kept is not None and time.monotonic() - kept.seen <= FRESH_S
        return (kept.run, kept.version) if kept is not None and fresh else None

    def diagnosis(self, run_id: str) -> Diagnosis | None:
        """The diagnosis of the run as it stands now, made on the spot."""
        kept = self._kept(run_id)
        if kept is None:
            return None
        if kept.diagnosis is None:
            kept.diagnosis = diagnosis_.diagnose(kept.run)
        return kept.diagnosis

    def judgement(self, entry: Entry, *, first: bool = False) -> Answer | None:
        """The last judgement of the run; a newer one is asked for when the run has changed since."""
        if entry.kind == "record":  # the list has read its last sign of life already
            stamp = f"{entry.updated}:{entry.step}:{entry.state}"
        else:
            stamp = _stamp(entry.path)
        self.doctor.ask(entry.id, entry.path, entry.index, stamp, first=first)
        return self.doctor.answer(entry.id)

    def health(self, entry: Entry) -> dict[str, Any] | None:
        """Verdict and worst finding in a line, once known."""
        known = self.judgement(entry)
        return known.health if known else None

    def together(self) -> dict[str, Any]:
        """All runs that were judged so far side by side: what can be said of them, and the numbers of each."""
        answers = {e.id: self.doctor.answer(e.id) for e in self.entries()}
        judged = {run_id: a for run_id, a in answers.items() if a is not None and a.row is not None}
        stamp = [a.at for a in judged.values()]
        if stamp != self._together[0] or not self._together[1]:
            found = sweep([runs_.as_row({"row": a.row}) for a in judged.values()])
            told = {
                "said": found.sentences() if len(judged) > 1 else [],
                "metric": found.metric,
                "runs": dict(zip(judged, sweeps.document(found)["runs"], strict=True)),
            }
            self._together = (stamp, told)
        return self._together[1]

    def _logs(self) -> list[Entry]:
        """The runs of foreign logs, when there is no record of ours; of very many the files are named before they are read."""
        parts, _ = importers.parts(self.root) if self.root.exists() else ([], [])
        found = []
        for part in parts:
            for i, (source, step) in enumerate(_inside(part) if len(parts) <= FEW else [(str(part), None)]):
                name = source.removeprefix(f"{self.root}{os.sep}")
                found.append(Entry(_id(part, i), name or part.name, part, "log", "closed", step, part.stat().st_mtime, 1, i))
        return found or [Entry(_id(self.root, 0), self.root.name, self.root, "log", "closed", None, None)]

    def _kept(self, run_id: str) -> _Kept | None:
        entry = self.entry(run_id)
        if entry is None:
            return None
        with self._lock:
            kept = self._cache.get(run_id)
            if kept is None:
                kept = self._cache[run_id] = _Kept(Run(), "", -1e9)
                while len(self._cache) > KEPT:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(run_id)
        with kept.lock:  # the first who asks reads; the others get what was read
            if time.monotonic() - kept.seen > FRESH_S:
                self._renew(kept, entry)
                kept.seen = time.monotonic()
        return kept

    def _renew(self, kept: _Kept, entry: Entry) -> None:
        stamp = _stamp(entry.path)
        if stamp == kept.stamp:
            return
        try:
            if entry.kind == "record" and entry.ranks == 1:
                if kept.follower is None:
                    kept.follower = follow(entry.path)
                elif not kept.follower.poll():
                    return
                kept.run = kept.follower.run
            else:
                runs = runs_.load(entry.path)
                kept.run = runs[entry.index] if entry.index < len(runs) else Run()
        except (TraindxError, OSError):
            return
        kept.stamp, kept.diagnosis, kept.version = stamp, None, kept.version + 1


def _inside(part: Path) -> list[tuple[str, int | None]]:
    """Name and last step of every run in a log."""
    try:
        return [(r.source, r.steps[1] if r.steps else None) for r in runs_.load(part)]
    except (TraindxError, OSError):
        return []


def _entry(r: Record, root: Path) -> Entry:
    outer = r.path.parent.relative_to(root).as_posix() if r.path != root and r.path.is_relative_to(root) else "."
    own = r.path.name if r.path.name.startswith(r.name) else r.name  # train-20260101-120000 says more than train
    name = own if outer == "." else f"{outer}/{own}"
    return Entry(_id(r.path, 0), name, r.path, "record", r.ended, r.last_step, r.updated or r.created, max(1, r.ranks))


def _records(folder: Path, shut: list[Path], depth: int = DEPTH) -> list[Record]:
    """The records below a folder, also those a few folders down; folders that cannot be looked into go to `shut`."""
    try:
        if not folder.is_dir():
            return []
        found = list_records(folder)
        if depth and not (len(found) == 1 and found[0].path == folder):
            known = {r.path.name for r in found}
            with os.scandir(folder) as inner:
                names = sorted(e.name for e in inner if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
            for name in names:
                if name not in known and not is_record(folder / name):
                    found += _records(folder / name, shut, depth - 1)
    except OSError:
        shut.append(folder)
        return []
    return found


def _id(path: Path, index: int) -> str:
    return hashlib.sha256(os.fsencode(path.resolve()) + f"#{index}".encode()).hexdigest()[:16]


def _stamp(path: Path) -> str:
    """Changes whenever a file of the run does."""
    files = [path]
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if "capsules" not in f.parts)[:400]
    parts = []
    for f in files:
        try:
            s = f.stat()
        except OSError:
            continue
        parts.append(os.fsencode(f.name) + f":{s.st_size}:{s.st_mtime_ns}".encode())
    return hashlib.sha256(b"|".join(parts)).hexdigest()
