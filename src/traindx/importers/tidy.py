"""Long tables: one row per number, with the metric's name in a column of its own (traindx's own export is one)."""

from __future__ import annotations

from traindx.errors import NothingReadable
from traindx.importers import csvlog
from traindx.importers.source import MAX_CELLS, MAX_COLUMNS, Lines, Source
from traindx.importers.table import Log, Options, clean_name, number
from traindx.importers.tracks import Tracks

_NAMES = ("signal", "metric", "key", "tag", "metric_name", "variable", "name")
_VALUES = ("value", "metric_value")
_STEPS = ("step", "iteration", "iter", "global_step", "epoch")
_TIMES = ("time", "timestamp", "wall_time")
_RUNS = ("run", "run_id", "run_name", "run_uuid")


def can_read(source: Source) -> bool:
    """Whether the header names a metric, a value and a step."""
    if source.binary:
        return False
    shape = csvlog.shape_for(source)
    return shape is not None and shape.named and _places(shape.header) is not None


def _places(header: list[str]) -> dict[str, int] | None:
    low = [h.strip().strip('"').lower() for h in header]
    found = {
        role: next((low.index(n) for n in names if n in low), -1)
        for role, names in (("name", _NAMES), ("value", _VALUES), ("step", _STEPS), ("time", _TIMES), ("run", _RUNS))
    }
    return found if min(found["name"], found["value"], found["step"]) >= 0 else None


def read(source: Source, options: Options) -> list[Log]:
    """The curves of a long table, one log for each run it names."""
    shape = csvlog.shape_for(source)
    places = _places(shape.header) if shape is not None else None
    if shape is None or places is None:
        raise NothingReadable(f"{source.name}: is not a table of metric, step and value")
    low = [h.strip().lower() for h in shape.header]
    extra = low.index("name") if low[places["name"]] == "signal" and "name" in low else -1
    runs: dict[str, Tracks] = {}
    bad = kept = 0
    for cells in csvlog.Cells(Lines(source), shape):
        if len(cells) <= max(places["name"], places["value"], places["step"]):
            bad += 1
            continue
        value, step = number(cells[places["value"]], shape.decimal), number(cells[places["step"]], shape.decimal)
        if value is None or step is None or kept >= MAX_CELLS:
            bad += bool(cells[places["value"]].strip())
            continue
        run = cells[places["run"]].strip() if places["run"] >= 0 else ""
        name = cells[places["name"]].strip() + (f"/{cells[extra].strip()}" if extra >= 0 and cells[extra].strip() else "")
        tracks = runs.setdefault(run, Tracks())
        if len(runs) > 1000 or len(tracks) > MAX_COLUMNS:
            bad += 1
            continue
        when = number(cells[places["time"]], shape.decimal) if 0 <= places["time"] < len(cells) else None
        tracks.add(clean_name(name), step, value, when)
        kept += 1
    if not kept:
        raise NothingReadable(f"{source.name}: the table names metrics but holds no numbers")
    unit = "epoch" if low[places["step"]] == "epoch" else "step"
    logs = [t.log("csv", f"{source.name}#{clean_name(run)}" if run else source.name, unit) for run, t in runs.items()]
    for log in logs:
        if bad:
            log.damage(f"{bad} rows without a number or beyond the limits were skipped")
    return logs
