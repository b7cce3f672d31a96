"""MLflow: run folders of an `mlruns` store (one text file per metric) and the SQLite store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from traindx.errors import NothingReadable, TraindxError
from traindx.importers import settings_file, sqlite
from traindx.importers.source import MAX_CELLS, MEGABYTE, Lines, Source
from traindx.importers.table import Log, Options, Track, clean_name, in_time_order
from traindx.plain import say

MOST_METRICS = 5000
MOST_RUNS = 500  # of one database, the newest


def can_read(source: Source) -> bool:
    """Whether the file is MLflow's database."""
    return {"runs", "metrics", "params"} <= sqlite.tables(source)


def is_run(files: set[str], folders: set[str]) -> bool:
    """Whether a folder with these entries is one run of an `mlruns` store."""
    return "metrics" in folders and "meta.yaml" in files


# -- folders


def read_folder(folder: Path) -> list[Log]:
    """The run of one folder; metrics may be nested (`metrics/train/loss`)."""
    log = Log("mlflow", str(folder), shared=False)
    base = folder / "metrics"
    row = 0
    for path in _files(base):
        track = _metric(Source.of(path), log, row)
        if track is not None and len(track):
            log.tracks[clean_name(path.relative_to(base).as_posix())] = track
            row += len(track)
    log.hparams = {p.relative_to(folder / "params").as_posix(): _value(p) for p in _files(folder / "params")}
    meta = settings_file.read(Source.of(folder / "meta.yaml"))
    name = meta.get("run_name")
    if isinstance(name, str) and name:
        log.facts["name"] = clean_name(name)
    if not log.tracks:
        raise NothingReadable(f"{folder}: an MLflow run without metrics")
    in_time_order(log)
    return [log]


def _files(base: Path, depth: int = 0) -> Iterator[Path]:
    """Plain files below a folder, links left out."""
    if depth > 6 or not base.is_dir() or base.is_symlink():
        return
    with os.scandir(base) as entries:
        for entry in sorted(entries, key=lambda e: e.name)[:MOST_METRICS]:
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path), depth + 1)
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _metric(source: Source, log: Log, row: int) -> Track | None:
    """One metric's file: lines of time in milliseconds, value, step."""
    times: list[float] = []
    values: list[float] = []
    steps: list[float] = []
    bad = 0
    try:
        for line in Lines(source, longest=MEGABYTE):
            parts = line.split()
            try:
                when, value, step = float(parts[0]), float(parts[1]), float(parts[2]) if len(parts) > 2 else float(len(steps))
            except (ValueError, IndexError):
                bad += bool(line.strip())
                continue
            times.append(when / 1000)
            values.append(value)
            steps.append(step)
            if len(values) >= MAX_CELLS // 20:
                break
    except TraindxError as why:
        log.damage(f"a metric was skipped: {why}")
        return None
    if bad:
        log.damage(f"{bad} lines of metric '{source.stem}' that are not 'time value step' were skipped")
    return Track(np.arange(row, row + len(values)), np.array(steps), np.array(values), np.array(times))


def _value(path: Path) -> Any:
    try:
        return settings_file.scalar(Source.of(path).whole(4096).decode("utf-8", "replace").strip())
    except TraindxError:
        return None


# -- database


def read(source: Source, options: Options) -> list[Log]:
    """The runs of the database, the newest of very many."""
    with sqlite.opened(source) as link:
        have = sqlite.columns(link, "metrics")
        if not {"key", "value", "run_uuid", "step"} <= have:
            raise NothingReadable(f"{source.name}: MLflow's table of metrics is not there")
        logs = list(_runs(link, source, "is_nan" in have))
    if not logs:
        raise NothingReadable(f"{source.name}: MLflow's database holds no run with metrics")
    return logs


def _runs(link: sqlite3.Connection, source: Source, flagged: bool) -> Iterator[Log]:
    have = sqlite.columns(link, "runs")
    newest = "start_time" if "start_time" in have else "rowid"
    wanted = f"SELECT run_uuid FROM runs ORDER BY {newest} DESC LIMIT {MOST_RUNS}"  # noqa: S608
    names = dict(link.execute(f"SELECT run_uuid, name FROM runs WHERE run_uuid IN ({wanted})")) if "name" in have else {}  # noqa: S608
    if (count := link.execute("SELECT COUNT(*) FROM runs").fetchone()[0]) > MOST_RUNS:
        say(f"{source.name}: of {count} runs the newest {MOST_RUNS} are read; give an experiment of its own for the others")
    nan = "is_nan" if flagged else "0"
    query = (
        f"SELECT run_uuid, key, value, step, timestamp, {nan} FROM metrics WHERE run_uuid IN ({wanted}) "  # noqa: S608
        "ORDER BY run_uuid, timestamp, step LIMIT ?"
    )
    current = ""
    points: list[tuple[Any, ...]] = []
    for row in link.execute(query, (MAX_CELLS // 2,)):
        if row[0] != current:
            if points:
                yield _log(link, source, current, names.get(current), points)
            current, points = row[0], []
        points.append(row[1:])
    if points:
        yield _log(link, source, current, names.get(current), points)


def _log(link: sqlite3.Connection, source: Source, run: Any, name: Any, points: list[tuple[Any, ...]]) -> Log:
    log = Log("mlflow", f"{source.name}#{clean_name(name or run)}", shared=False)
    log.facts["name"] = clean_name(name or run)
    by_key: dict[str, list[tuple[int, float, float, float]]] = {}
    bad = 0
    for i, (key, value, step, when, nan) in enumerate(points):
        try:
            entry = (i, float(step or 0), float("nan") if nan else float(value), float(when or 0) / 1000)
        except (TypeError, ValueError):
            bad += 1
            continue
        by_key.setdefault(clean_name(key), []).append(entry)
    for key, entries in by_key.items():
        table = np.array(entries, dtype=np.float64)
        log.tracks[key] = Track(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], table[:, 3])
    if bad:
        log.damage(f"{bad} metric records that are no numbers were skipped")
    if {"key", "value", "run_uuid"} <= sqlite.columns(link, "params"):
        rows = link.execute("SELECT key, value FROM params WHERE run_uuid = ? LIMIT 2000", (run,))
        log.hparams = {str(k)[:200]: settings_file.scalar(str(v)[:500]) for k, v in rows}
    return log
