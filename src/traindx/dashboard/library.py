"""The runs below a folder, read once and again only when they change. Ids are ours: nothing a client sends names a path."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx import api
from traindx import diagnosis as diagnosis_
from traindx.diagnosis import Diagnosis
from traindx.errors import TraindxError
from traindx.record import is_record, list_records
from traindx.run import Run

KEPT = 12  # runs held in memory


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


class Library:
    """Finds runs, reads them, diagnoses them, and keeps the last few."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entries: dict[str, Entry] = {}
        self._cache: OrderedDict[str, tuple[str, Run, Diagnosis | None]] = OrderedDict()
        self._health: dict[str, tuple[str, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Every run below the folder, newest first."""
        found: list[Entry] = []
        if self.root.is_dir() or is_record(self.root):
            for record in list_records(self.root):
                found.append(
                    Entry(_id(record.path), record.name, record.path, "record", record.ended, record.last_step, record.updated)
                )
        if not found:
            found = [Entry(_id(self.root), self.root.name, self.root, "log", "closed", None, None)]
        self._entries = {e.id: e for e in found}
        return found

    def entry(self, run_id: str) -> Entry | None:
        """The run of that id; the list is read again once when it is not known."""
        if run_id not in self._entries:
            self.entries()
        return self._entries.get(run_id)

    def run(self, run_id: str) -> Run | None:
        """The run, fresh from disk when it has grown."""
        loaded = self._load(run_id)
        return loaded[1] if loaded else None

    def diagnosis(self, run_id: str) -> Diagnosis | None:
        """The diagnosis of the run as it stands now."""
        loaded = self._load(run_id)
        if loaded is None:
            return None
        stamp, run, known = loaded
        if known is None:
            known = diagnosis_.diagnose(run)
            with self._lock:
                self._cache[run_id] = (stamp, run, known)
        return known

    def health(self, entry: Entry) -> dict[str, Any]:
        """Verdict and worst finding in a line; kept until the run changes."""
        stamp = _stamp(entry.path)
        kept = self._health.get(entry.id)
        if kept and kept[0] == stamp:
            return kept[1]
        d = self.diagnosis(entry.id)
        line: dict[str, Any] = {"verdict": "cannot-tell", "summary": "cannot be read", "severity": None}
        if d is not None:
            line = {"verdict": d.verdict, "summary": d.summary, "severity": d.worst.value if d.worst else None}
        self._health[entry.id] = (stamp, line)
        return line

    def known_health(self, entry: Entry) -> dict[str, Any] | None:
        """What is known of the run's health without reading it."""
        kept = self._health.get(entry.id)
        return kept[1] if kept else None

    def _load(self, run_id: str) -> tuple[str, Run, Diagnosis | None] | None:
        entry = self.entry(run_id)
        if entry is None:
            return None
        stamp = _stamp(entry.path)
        with self._lock:
            kept = self._cache.get(run_id)
            if kept and kept[0] == stamp:
                self._cache.move_to_end(run_id)
                return kept
        try:
            runs = api.load(entry.path)
        except TraindxError:
            return None
        loaded = (stamp, runs[0] if runs else Run(), None)
        with self._lock:
            self._cache[run_id] = loaded
            while len(self._cache) > KEPT:
                self._cache.popitem(last=False)
        return loaded


def _id(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]


def _stamp(path: Path) -> str:
    """Changes whenever a file of the run does."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    parts = []
    for f in files[:200]:
        try:
            s = f.stat()
        except OSError:
            continue
        parts.append(f"{f.name}:{s.st_size}:{s.st_mtime_ns}")
    return hashlib.sha256("|".join(parts).encode()).hexdigest()
