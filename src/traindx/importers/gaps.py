"""Which cells of a table were filled: a NaN is a gap where nothing was logged, and a value where the run broke."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.importers.aliases import meaning
from traindx.run import Floats

AXES = ("step", "epoch", "samples", "tokens", "log_step", "clock")
SPARSE = 0.3  # share of empty cells up to the last number, above which a column was not filled in every row


def filled(column: str, values: Floats, table: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Which cells hold a value. Between numbers a NaN is one where the column is dense and no sparse neighbour was filled
    instead; after the last number where the silence is longer than any before it: a log that stops being a number is sick.
    """
    empty = np.isnan(values)
    numbers = np.flatnonzero(~empty)
    if not empty.any() or meaning(column).role in AXES:
        return ~empty
    if not len(numbers):
        return np.full(len(values), meaning(column).role == "loss" and meaning(column).split != "val")
    last = int(numbers[-1])
    widest = max(int(np.max(np.diff(numbers), initial=1)) - 1, int(numbers[0]))
    real = ~empty
    if empty[:last].mean() <= SPARSE if last else False:
        real[:last] |= ~_elsewhere(column, len(values), table)[:last]
    real[last:] |= len(values) - 1 - last > 2 * widest
    return real


def _elsewhere(column: str, count: int, table: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Rows in which a sparse column next to this one was filled."""
    out = np.zeros(count, bool)
    for other, cells in table.items():
        if other != column and len(cells) == count and meaning(other).role in ("loss", "part", "metric", "accuracy"):
            out |= ~np.isnan(cells) & (np.isnan(cells).mean() > SPARSE)
    return out
