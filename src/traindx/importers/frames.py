"""Curves that are already in Python: pandas and polars frames, dicts of lists, lists of records, Keras' History."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from traindx.errors import NothingReadable, UsageError
from traindx.importers import axis, jsondict
from traindx.importers.gaps import filled
from traindx.importers.table import Log, Options, Rows, clean_name


def can_read(thing: Any) -> bool:
    """Whether this is something with columns or records."""
    if isinstance(thing, Mapping) or hasattr(thing, "columns") or isinstance(getattr(thing, "history", None), Mapping):
        return True
    return isinstance(thing, list | tuple) and bool(thing) and all(isinstance(t, Mapping) for t in thing[:5])


def _written(record: Mapping[Any, Any]) -> dict[Any, Any]:
    """A record without the cells that nobody filled: in Python, None is no number that went bad."""
    return {key: value for key, value in record.items() if value is not None}


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
        keys = list(thing[0])
        if all(
            list(r) == keys and all(v is None or (np.isscalar(v) and not isinstance(v, str)) for v in r.values()) for r in thing
        ):
            # a frame, row by row
            return logs_of({str(k): [record[k] for record in thing] for k in keys}, "records", options, "frame")
        return jsondict.logs_of([_written(record) for record in thing], "records", options, "frame")
    if (losses := _numbers(thing)) is not None and losses.ndim == 1 and len(losses):
        return logs_of({"loss": losses}, "numbers", options, "frame", written=[v is not None for v in thing])
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


def logs_of(
    columns: Mapping[str, Any], name: str, options: Options, kind: str, written: Sequence[bool] | None = None
) -> list[Log]:
    """Columns of equal length; a NaN is a gap where the column is sparse, and a value where the column is dense.

    `written` says which cells hold a value, where that is known: in a list of losses a NaN is a loss, and None a gap.
    """
    arrays = {clean_name(c): _numbers(v) for c, v in columns.items()}
    numeric = {c: v for c, v in arrays.items() if v is not None}
    if not numeric:
        raise NothingReadable(f"{name}: the table has no column of numbers ({', '.join(list(arrays)[:8])})")
    count = max(len(v) for v in numeric.values())
    rows = Rows(options.axes)
    table: axis.Columns = {}
    gaps: list[str] = []
    for column, values in numeric.items():
        keep = filled(column, values, numeric) if written is None else np.array(written)
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
