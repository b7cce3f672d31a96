"""Curves that are already in Python: pandas and polars frames, dicts of lists, lists of records, Keras' History."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from traindx.errors import NothingReadable, UsageError
from traindx.importers import axis, jsondict
from traindx.importers.aliases import meaning
from traindx.importers.table import Log, Options, Rows, clean_name


def can_read(thing: Any) -> bool:
    """Whether this is something with columns or records."""
    if isinstance(thing, Mapping) or hasattr(thing, "columns") or isinstance(getattr(thing, "history", None), Mapping):
        return True
    return isinstance(thing, list | tuple) and bool(thing) and all(isinstance(t, Mapping) for t in thing[:5])


def read(thing: Any, options: Options) -> list[Log]:
    """The curves in a frame, dict, list of records or History."""
    if isinstance(getattr(thing, "history", None), Mapping) and not isinstance(thing, Mapping):
        thing = dict(thing.history)
    if hasattr(thing, "columns") and not isinstance(thing, Mapping):
        thing = {str(c): _column(thing, c) for c in thing.columns}
        return logs_of(thing, "frame", options, "frame")
    if isinstance(thing, Mapping):
        return _of_dict(dict(thing), options)
    if can_read(thing):
        return jsondict.logs_of(list(thing), "records", options, "frame")
    raise UsageError(
        f"cannot read a run from {type(thing).__name__}; give a path, a frame, a dict of lists or a list of records"
    )


def _column(frame: Any, name: Any) -> Any:
    column = frame[name]
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


def _of_dict(thing: dict[Any, Any], options: Options) -> list[Log]:
    if isinstance(thing.get("log_history"), list):
        return jsondict.logs_of(thing["log_history"], "records", options, "frame")
    logs = jsondict.logs_of(thing, "dict", options, "frame")
    if not logs:
        raise NothingReadable("the dict holds no lists of numbers")
    for log in logs:
        log.kind = "frame"
    return logs


def logs_of(columns: Mapping[str, Any], name: str, options: Options, kind: str) -> list[Log]:
    """Columns of equal length; a NaN is a gap where the column is sparse, and a value where the column is dense."""
    arrays = {clean_name(c): _numbers(v) for c, v in columns.items()}
    numeric = {c: v for c, v in arrays.items() if v is not None}
    if not numeric:
        raise NothingReadable(f"{name}: the table has no column of numbers ({', '.join(list(arrays)[:8])})")
    count = max(len(v) for v in numeric.values())
    rows = Rows(options.axes)
    table: axis.Columns = {}
    gaps: list[str] = []
    for column, values in numeric.items():
        keep = _real(column, values, numeric)
        if not keep.all():
            gaps.append(column)
        table[options.axes.get(column, column)] = (np.flatnonzero(keep).astype(np.int64), values[keep])
    log = axis.log_of(table, count, kind, name)
    log.unused = [c for c in arrays if c not in numeric]
    if gaps:
        log.notes.append(f"empty cells of {len(gaps)} sparse columns were taken for gaps, not for NaN")
    rows.count = count
    return [log]


def _numbers(values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind in "fiu":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        try:
            return (
                np.array([np.nan if v is None else float(v) for v in array if not isinstance(v, str)], dtype=np.float64)
                if not any(isinstance(v, str) for v in array)
                else None
            )
        except (TypeError, ValueError):
            return None
    return None


def _real(column: str, values: Any, table: Mapping[str, Any]) -> Any:
    """Which cells hold a value. NaN cells do when the column is mostly full and nothing else explains the gap."""
    empty = np.isnan(values)
    if not empty.any():
        return ~empty
    role = meaning(column).role
    if role in ("step", "epoch", "samples", "tokens", "log_step", "clock") or empty.mean() > 0.5:
        return ~empty
    filled_elsewhere = np.zeros(len(values), bool)
    for other, cells in table.items():
        if other != column and len(cells) == len(values) and meaning(other).role in ("loss", "part", "metric", "accuracy"):
            sparse = np.isnan(cells).mean() > 0.3
            filled_elsewhere |= ~np.isnan(cells) if sparse else False
    return ~(empty & filled_elsewhere)
