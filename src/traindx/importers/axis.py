"""From records to tracks: which column counts the steps, which one is the clock, and which one tells runs apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traindx.importers import curves
from traindx.importers.aliases import Meaning, meaning, step_rank
from traindx.importers.table import Log, Rows, Track
from traindx.run import Floats, Ints

Columns = dict[str, tuple[Ints, Floats]]
RUN_NAMES = (
    "run",
    "run_id",
    "run_name",
    "run id",
    "run name",
    "trial",
    "trial_id",
    "experiment",
    "exp",
    "exp_name",
    "fold",
    "seed",
)
_UNITS = {"step": "step", "log_step": "step", "epoch": "epoch", "epoch1000": "epoch", "samples": "samples", "tokens": "tokens"}
_DATA = ("loss", "part", "perplexity", "accuracy", "metric", "train_eval", "grad_norm")


@dataclass
class _Axis:
    name: str
    unit: str
    x: Floats  # by row


def logs_of(rows: Rows, kind: str, source: str, *, note: bool = True) -> list[Log]:
    """The logs in a table of records: usually one; several when a column names runs."""
    columns = rows.columns()
    groups = _groups(rows, columns)
    if groups is None:
        return [log_of(columns, rows.count, kind, source, rows if note else None)]
    out = []
    for label, keep in groups:
        part = {n: (at[m], v[m]) for n, (at, v) in columns.items() if (m := np.isin(at, keep)).any()}
        out.append(log_of(part, rows.count, kind, f"{source}#{label}", rows if note else None))
    return out


def log_of(columns: Columns, count: int, kind: str, source: str, rows: Rows | None = None) -> Log:
    """One log of columns that share their rows."""
    log = Log(kind, source)
    axis = choose(columns, count, log.notes)
    log.unit, log.axis = axis.unit, axis.name
    clock = _clock(columns, count)
    for name, (at, values) in columns.items():
        if name in (axis.name, clock[0]):
            continue
        log.tracks[name] = Track(at, axis.x[at], values, None if clock[1] is None else clock[1][at])
    if rows is not None:
        _tell_rejects(log, rows)
    return log


def _tell_rejects(log: Log, rows: Rows) -> None:
    log.unused = [name for name in rows.rejected if name not in log.tracks][:200]
    mixed = {name: n for name, n in rows.rejected.items() if name in log.tracks}
    if mixed:
        worst = max(mixed, key=lambda n: mixed[n])
        log.notes.append(
            f"{sum(mixed.values())} cells in {len(mixed)} columns were no numbers and count as missing (most in '{worst}')"
        )
    if rows.dropped:
        log.damage(f"{rows.dropped} records or columns beyond the limits were skipped")


def choose(columns: Columns, count: int, notes: list[str]) -> _Axis:
    """The best counter among the columns; the order of writing when there is none."""
    data = _data_rows(columns, count)
    found: list[tuple[float, str, Meaning]] = []
    for name in columns:
        m = meaning(name)
        if m.role in _UNITS and (rank := _rank(name, m, columns[name], data)) is not None:
            found.append((rank, name, m))
    if not found:
        notes.append("there is no step or epoch column: records are counted in the order of writing")
        return _Axis("", "record", np.arange(count, dtype=np.float64))
    _, name, m = min(found)
    at, values = columns[name]
    if m.role == "step":
        at, values = _with_evaluations(at, values, columns)
    x = _filled(at, values, count)
    if m.role == "step":
        x = _across_epochs(x, columns, count, notes, name)
    if m.role == "log_step":
        notes.append(f"steps are counted by '{name}', which counts calls of the logger and perhaps not updates")
    if m.role == "epoch1000":
        x = x / 1000.0
    missing = len(data) - int(np.isin(data, at).sum())
    if missing:
        notes.append(f"{missing} records have no '{name}' and were given that of the record before them")
    return _Axis(name, _UNITS[m.role], x)


def _rank(name: str, m: Meaning, column: tuple[Ints, Floats], data: Ints) -> float | None:
    """How good a counter this is, smaller is better; None when it is none: constant, mostly absent, not finite."""
    at, values = column
    if not np.all(np.isfinite(values)) or np.any(np.abs(values) > 2**53):
        return None
    covers = float(np.isin(data, at).mean()) if len(data) else 1.0
    different = len(np.unique(values))
    if covers < 0.3 or (different == 1 and len(data) > 1):
        return None
    base = {"step": 0.0, "samples": 20.0, "tokens": 21.0, "log_step": 10.0, "epoch": 30.0, "epoch1000": 29.0}[m.role]
    if m.role == "step":
        base += step_rank(name) + (3 if m.split in ("val", "test") else 0)
    if m.role == "step" and len(at) > 20 and different <= 2:
        base += 40
    return base + (0 if covers >= 0.9 else 50)


def _data_rows(columns: Columns, count: int) -> Ints:
    hit = np.zeros(count, dtype=bool)
    for name, (at, _) in columns.items():
        if meaning(name).role in ("loss", "part", "perplexity"):
            hit[at] = True
    if not hit.any():
        for name, (at, _) in columns.items():
            if meaning(name).role in _DATA:
                hit[at] = True
    return np.flatnonzero(hit)


def _with_evaluations(at: Ints, values: Floats, columns: Columns) -> tuple[Ints, Floats]:
    """The counter, completed on evaluation records by the evaluation's own counter (fairseq's valid_num_updates).

    Not by one that falls behind the updates already made: it counts the batches of the evaluation (mmcv's iter).
    """
    for other, (rows, steps) in columns.items():
        told = meaning(other)
        if told.role == "step" and told.split in ("val", "test") and np.all(np.isfinite(steps)):
            fresh = ~np.isin(rows, at)
            before = np.searchsorted(at, rows[fresh])
            if np.mean(steps[fresh][before > 0] < values[before[before > 0] - 1]) > 0.5:
                continue
            order = np.argsort(np.concatenate([at, rows[fresh]]), kind="stable")
            at, values = np.concatenate([at, rows[fresh]])[order], np.concatenate([values, steps[fresh]])[order]
    return at, values


def _filled(at: Ints, values: Floats, count: int) -> Floats:
    """A value for every row: that of the row itself or of the nearest earlier row (at the start: the first)."""
    if len(at) == count:
        return values
    index = np.searchsorted(at, np.arange(count), side="right") - 1
    return values[np.clip(index, 0, len(at) - 1)]


def _across_epochs(x: Floats, columns: Columns, count: int, notes: list[str], name: str) -> Floats:
    for other, (at, values) in columns.items():
        if meaning(other).role == "epoch" and len(at) >= 0.5 * count:
            joined = curves.within_epoch(x, _filled(at, values, count))
            if joined is not None:
                notes.append(f"'{name}' restarts in every '{other}'; the two were joined into one count")
                return joined
    return x


def _clock(columns: Columns, count: int) -> tuple[str, Floats | None]:
    best = ""
    for name, (at, values) in columns.items():
        m = meaning(name)
        if len(at) < 0.5 * count or len(at) < 2 or not np.all(np.isfinite(values)):
            continue
        rising = bool(np.all(np.diff(values) >= 0))
        if (m.role == "clock" and (not best or "timestamp" in name.lower())) or (
            not best and m.role == "duration" and rising and len(at) > 4 and values[-1] > values[0]  # a total that runs
        ):
            best = name
    if not best:
        return "", None
    times = _filled(*columns[best], count)
    top = float(np.max(np.abs(times)))
    return best, times / (1e9 if top > 1e17 else 1e6 if top > 1e14 else 1e3 if top > 1e11 else 1.0)


def _groups(rows: Rows, columns: Columns) -> list[tuple[str, Ints]] | None:
    """The rows of each run when a column names runs; None when all rows belong together."""
    for name in RUN_NAMES:
        texts = next((w for n, w in rows.words.items() if n.lower() == name), None)
        numbers = next((c for n, c in columns.items() if n.lower() == name), None)
        labels: dict[str, list[int]] = {}
        if texts is not None and len(texts) > 0.9 * rows.count:
            for row, text in texts.items():
                labels.setdefault(text, []).append(row)
        elif numbers is not None and len(numbers[0]) > 0.9 * rows.count:
            for row, value in zip(*numbers):
                labels.setdefault(f"{value:g}", []).append(int(row))
        if 1 < len(labels) <= 1000 and rows.count >= 3 * len(labels):
            return [(label, np.asarray(at, np.int64)) for label, at in labels.items()]
    return None
