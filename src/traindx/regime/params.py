"""Which parameters are the weights that learn, how large they are, and how their columns read over time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from traindx.run import Floats, Matrix, Run


def shape(run: Run, name: str) -> tuple[int, ...] | None:
    """The sizes of a parameter; None when they were not recorded."""
    found = (run.fact("model.param_shapes") or {}).get(name)
    return tuple(int(v) for v in found) if isinstance(found, list | tuple) else None


def numel(run: Run, name: str) -> int | None:
    sizes = shape(run, name)
    return math.prod(sizes) if sizes is not None else None


def _names(run: Run, key: str) -> set[str]:
    value = run.fact(key)
    return {str(v) for v in value} if isinstance(value, list | tuple | set | dict) else set()


def weights(run: Run, names: Iterable[str], *, embeddings: bool = False) -> list[str]:
    """The weight matrices among `names`, in the order given: two or more dimensions, not frozen, no norm gain.

    Embeddings are left out unless asked for: their gradients are sparse. Without recorded shapes every name counts.
    """
    out = _names(run, "model.frozen") | _names(run, "model.norm_gains")
    if not embeddings:
        out |= _names(run, "model.embeddings")
    kept = [n for n in names if n not in out]
    known = run.fact("model.param_shapes") or {}
    return [n for n in kept if not known or len(shape(run, n) or ()) >= 2]


def columns(table: Matrix, names: Iterable[str]) -> Floats:
    """The values of these names, (T, len(names))."""
    place = {n: i for i, n in enumerate(table.names)}
    return np.asarray(table.values[:, [place[n] for n in names]], dtype=np.float64)


def rms(run: Run, table: Matrix, names: list[str]) -> Floats:
    """Norms turned into root mean squares by the number of entries, where that is known."""
    sizes = np.array([math.sqrt(numel(run, n) or 1) for n in names])
    return np.asarray(columns(table, names) / np.maximum(sizes, 1.0), dtype=np.float64)


def update_ratios(run: Run) -> Matrix:
    """|Δw|/|w| of the weight matrices over time; a tensor counts once its own size is above 1e-3 (CATALOGUE 2.11)."""
    table = run.matrix("update_ratio/param")
    names = weights(run, table.names, embeddings=True)
    values = columns(table, names).copy() if len(table) else np.empty((0, 0))
    sizes = run.matrix("weight_norm/param")
    for i, name in enumerate(names):
        if name in sizes.place and len(sizes):
            size = sizes.column(name).at(table.steps) / math.sqrt(numel(run, name) or 1)
            values[:, i] = np.where(np.isfinite(size) & (size < 1e-3), np.nan, values[:, i])
    return Matrix(table.steps, tuple(names), values) if len(table) else Matrix(table.steps, (), values)


def _shrunk(run: Run, part: Matrix) -> Floats:
    """Size over size at the first of these records, at most 1, where both are known; NaN for what began at zero."""
    sizes, out = run.matrix("weight_norm/param").between(lo=part.steps[0]), np.ones(part.values.shape)
    for i, name in enumerate(part.names):
        if name in sizes.place and len(known := sizes.column(name).finite()):
            first = float(known.values[0])
            born = first < 1e-3 * math.sqrt(numel(run, name) or 1)  # every step moves it by its own size for a while
            out[:, i] = np.nan if born else np.fmin(1.0, known.at(part.steps) / max(first, 1e-30))
    return out


def early_update(run: Run, first: int, records: int = 10) -> tuple[float, tuple[str, ...], int]:
    """The largest update ratio of the first steps from `first` on, where, and at which step; NaN when unknown (2.11).

    A tensor that has shrunk since is measured by the size it began with: what ends near zero moves far only next to itself.
    """
    table = update_ratios(run)
    part = table.between(lo=first, hi=first + 10 * records)
    rows = part.values[:records] * _shrunk(run, part)[:records] if part.values.size else part.values
    if rows.size and np.isfinite(rows).any():
        worst = np.nanmax(np.where(np.isfinite(rows), rows, -np.inf), axis=0)
        order = np.argsort(-worst)
        at = int(np.argmax(np.where(np.isfinite(rows), rows, -np.inf).max(axis=1)))
        return float(worst[order[0]]), tuple(part.names[i] for i in order[:3]), int(part.steps[at])
    if np.isfinite(run.matrix("update_ratio/param").between(lo=first, hi=first + 10 * records).values).any() and rows.size:
        return math.nan, (), first  # all that moved began at zero
    series = run.series("update_ratio").finite().between(lo=first, hi=first + 10 * records)
    if not len(series):
        return math.nan, (), first
    values = series.values[:records]
    return float(np.max(values)), (), int(series.steps[int(np.argmax(values))])


THROWN = 10.0  # times its own size: a weight moved by more is gone, whatever formula comes after it


def thrown(run: Run, step: int, window: int = 3) -> tuple[float, str]:
    """How far, at most, one of the last updates before a step moved a weight, as a share of its size, and which."""
    table = update_ratios(run).between(lo=step - window, hi=step - 1)
    names = weights(run, table.names)
    values = columns(table, names) if names else np.empty((0, 0))
    if not np.isfinite(values).any():
        return math.nan, ""
    largest = np.nanmax(np.where(np.isfinite(values), values, -np.inf), axis=0)
    return float(largest.max()), names[int(largest.argmax())]
