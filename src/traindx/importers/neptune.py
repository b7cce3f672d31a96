"""Neptune: parquet files of its exporter (needs the extra `arrow`), one row per point, many runs in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx.errors import EnvironmentFault, NothingReadable
from traindx.importers import frames
from traindx.importers.source import MAX_CELLS, Source
from traindx.importers.table import Log, Options, Track, clean_name
from traindx.importers.tracks import Tracks

MAGIC = b"PAR1"
MOST_BYTES = 512 << 20
_NEEDED = ("run_id", "attribute_path", "attribute_type", "step", "timestamp", "float_value")


def can_read(source: Source) -> bool:
    return source.head.startswith(MAGIC)


def read(source: Source, options: Options) -> list[Log]:
    """Every run of the file with its float series."""
    table = _table(source)
    if not set(_NEEDED) <= set(table.column_names):
        return _plain(table, source, options)
    logs = list(_runs(table, source))
    if not logs:
        raise NothingReadable(f"{source.name}: Neptune's export holds no series of numbers")
    return logs


def _table(source: Source) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise EnvironmentFault(
            f"{source.name}: reading parquet needs pyarrow; install it with: pip install 'traindx[arrow]'"
        ) from None
    if source.size > MOST_BYTES:
        raise NothingReadable(f"{source.name}: a parquet file of {source.size >> 20} MB is not read")
    try:
        with source.open() as file:
            found = parquet.ParquetFile(file)
            if found.metadata.num_rows * found.metadata.num_columns > 4 * MAX_CELLS:
                raise NothingReadable(f"{source.name}: {found.metadata.num_rows} rows are more than is read of one file")
            return found.read()
    except (pyarrow.ArrowException, OSError, ValueError) as why:
        raise NothingReadable(f"{source.name}: the parquet file is cut or damaged: {str(why)[:200]}") from None


def _runs(table: Any, source: Source) -> Any:
    runs = np.asarray(table["run_id"].to_pylist(), dtype=object)
    paths = np.asarray(table["attribute_path"].to_pylist(), dtype=object)
    kinds = np.asarray(table["attribute_type"].to_pylist(), dtype=object)
    series = np.array([str(k) == "float_series" for k in kinds])
    for run in dict.fromkeys(runs.tolist()):
        mine = runs == run
        log = Log("neptune", f"{source.name}#{clean_name(run)}", shared=False)
        for path in dict.fromkeys(paths[mine & series].tolist()):
            at = np.flatnonzero(mine & series & (paths == path))
            log.tracks[clean_name(path).removeprefix("metrics/")] = _track(table, at)
        log.hparams = _settings(table, np.flatnonzero(mine & ~series), paths)
        if log.tracks:
            yield log


def _track(table: Any, at: Any) -> Track:
    steps = [float(v) if v is not None else np.nan for v in table["step"].take(at).to_pylist()]
    values = [float(v) if v is not None else np.nan for v in table["float_value"].take(at).to_pylist()]
    times = [v.timestamp() if v is not None else np.nan for v in table["timestamp"].take(at).to_pylist()]
    return Track(np.asarray(at, np.int64), np.array(steps), np.array(values), np.array(times))


def _settings(table: Any, at: Any, paths: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("int_value", "float_value", "string_value", "bool_value"):
        if name not in table.column_names:
            continue
        for i, value in zip(at, table[name].take(at).to_pylist()):
            if value is not None and len(out) < 2000:
                out[str(paths[i])[:200].removeprefix("parameters/")] = value if not isinstance(value, str) else value[:500]
    return out


def _plain(table: Any, source: Source, options: Options) -> list[Log]:
    """Any other parquet file: traindx's own export (one row per number), or a table whose columns are curves."""
    columns = table.to_pydict()
    if not {"signal", "name", "step", "value"} <= set(columns):
        return frames.logs_of(columns, source.name, options, "parquet")
    tracks = Tracks()
    times = columns.get("time") or [None] * len(columns["step"])
    for signal, name, step, value, when in zip(*(columns[c] for c in ("signal", "name", "step", "value")), times):
        if isinstance(step, int) and isinstance(value, float):
            tracks.add(clean_name(f"{signal}/{name}" if name else signal), step, value, when)
    return [tracks.log("parquet", source.name)]
