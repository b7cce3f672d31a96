"""The columns of one run and what was made of them so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx.importers import curves
from traindx.importers.aliases import Meaning
from traindx.importers.table import Log, Options, Track
from traindx.run import Event, Matrix, Series, Signal


class Taken:
    """Columns with their meaning, and those that became signals."""

    def __init__(self, log: Log, tracks: dict[str, Track], options: Options) -> None:
        self.log, self.tracks, self.options = log, tracks, options
        self.out: dict[str, Signal] = {}
        self.taken: dict[str, str] = {}  # column → signal
        self.facts: dict[str, Any] = {}
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.meanings: dict[str, Meaning] = {}
        self._twins: set[str] | None = None
        self.val_rows = np.empty(0, np.int64)
        self.train_rows = np.empty(0, np.int64)

    def of_role(self, *roles: str) -> list[str]:
        """Columns of these roles that are not taken yet, most records first."""
        names = [n for n, m in self.meanings.items() if m.role in roles and n not in self.taken]
        return sorted(names, key=lambda n: -len(self.tracks[n]))

    def series(self, track: Track) -> Series:
        """A track as a series: in order, one record for each step."""
        kept = track if len(track) < 2 or bool(np.all(np.diff(track.x) > 0)) else track.where(curves.last_of_each(track.x))
        return Series(kept.x.astype(np.int64), kept.values, kept.times)

    def take(self, name: str, signal: str, track: Track | None = None) -> str:
        """Use a column as a signal; a second column for the same open name gets a suffix."""
        free = signal
        count = 2
        while free in self.out:
            free = f"{signal}_{count}"
            count += 1
        self.out[free] = self.series(self.tracks[name] if track is None else track)
        self.taken[name] = free
        return free

    def joined(self, tracks: dict[str, Track], most: int = 4_000_000) -> Matrix | None:
        """Tracks side by side over all their steps; None when there is nothing or too much of it."""
        each = {name: self.series(track) for name, track in tracks.items() if len(track)}
        if not each:
            return None
        steps = np.unique(np.concatenate([s.steps for s in each.values()]))
        if len(steps) * len(each) > most:
            self.notes.append(f"{len(each)} columns by {len(steps)} steps are too many for a table; they were not used")
            return None
        values = np.full((len(steps), len(each)), np.nan)
        for i, series in enumerate(each.values()):
            values[np.searchsorted(steps, series.steps), i] = series.values
        return Matrix(steps, tuple(each), values)

    def fractional(self) -> bool:
        """Whether the axis counts thousandths of an epoch."""
        return any("thousandths of an epoch" in note for note in self.log.notes)
