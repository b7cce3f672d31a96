"""What a process has told of its training before we came: read off its own logs, and brought onto the axis of its updates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traindx import importers
from traindx.bedside.process import Process
from traindx.errors import TraindxError
from traindx.record import Writer, is_record
from traindx.run import Run, Series

MOST_FILES, MOST_DEPTH = 5000, 5
_NAMES = ("events.out.tfevents", "trainer_state.json", "metrics.", "log.", "history.")
_ENDINGS = (".csv", ".tsv", ".jsonl", ".log", ".out", ".wandb", ".json")
_NEVER = {".git", "__pycache__", "node_modules", "site-packages", "traindx-runs"}


@dataclass(frozen=True)
class History:
    """The runs that its logs hold."""

    runs: tuple[Run, ...]
    paths: tuple[Path, ...] = ()  # where they were found

    @property
    def last(self) -> int | None:
        """The last step that a log counts in steps."""
        return max((run.steps[1] for run in self.runs if run.steps and run.fact("step_unit") == "step"), default=None)

    def joined(self, made: int | None) -> dict[str, Series]:
        """Every curve on the axis of updates, of which `made` were made until now; the richest log of each signal counts."""
        found: dict[str, Series] = {}
        for run in self.runs:
            factor = _factor(run, made)
            for name, signal in run.signals.items():
                if factor is not None and isinstance(signal, Series) and len(signal) > len(found.get(name, ())):
                    steps = np.round(signal.steps * factor).astype(np.int64)
                    found[name] = Series(steps, signal.values, signal.times)
        return found

    def write(self, writer: Writer, made: int | None, first: int, before: int) -> int:
        """Write the rows of these steps, `before` not among them, as what came before; how many there were."""
        rows: dict[int, dict[str, float]] = {}
        times: dict[int, float] = {}
        for name, series in self.joined(made).items():
            at = series.times if series.times is not None else np.full(len(series), np.nan)
            for step, value, when in zip(series.steps.tolist(), series.values.tolist(), at.tolist()):
                if first <= step < before:
                    rows.setdefault(step, {})[name] = value
                    times[step] = when
        for step in sorted(rows):
            writer.write(step, rows[step], times[step])
        if rows:
            writer.fact("history", [run.source for run in self.runs])
        return len(rows)


def of(one: Process) -> History:
    """Read what the process has written since it was started."""
    return read(dict.fromkeys(_files(one)))


def read(paths: Iterable[Path]) -> History:
    """The runs with a loss that these files hold."""
    found: dict[Path, list[Run]] = {}
    for path in paths:
        try:
            runs = [run for run in importers.read(path) if run.steps and any(n.startswith("loss/") for n in run.signals)]
        except (TraindxError, OSError):
            continue  # no log
        if runs:
            found[path] = runs
    return History(tuple(run for runs in found.values() for run in runs), tuple(found))


def _factor(run: Run, made: int | None) -> float | None:
    """Updates in one step of its axis; None where that cannot be known."""
    last = run.steps[1] if run.steps else 0
    if run.fact("step_unit") == "step" and (made is None or 0.5 * made <= last <= 1.02 * made + 2):
        return 1.0
    if made is None or last <= 0:
        return None
    return float(made / (last + (run.fact("step_unit") == "epoch")))


def _files(one: Process) -> Iterator[Path]:
    """The logs that it holds open, or has written below its folder since it was started."""
    begun = one.os.create_time() - 1.0
    yield from (path for path in one.written() if _is_log(path))
    left = MOST_FILES
    base = Path(one.os.cwd())
    for folder, inner, names in os.walk(base):
        here = Path(folder)
        deep = len(here.relative_to(base).parts)
        inner[:] = [n for n in inner if n not in _NEVER and deep < MOST_DEPTH and not is_record(here / n)]
        for name in names:
            left -= 1
            path = here / name
            if _is_log(path) and not path.is_symlink() and path.stat().st_mtime >= begun:
                yield path
        if left < 0:
            return


def _is_log(path: Path) -> bool:
    return path.name.startswith(_NAMES) or path.suffix in _ENDINGS
