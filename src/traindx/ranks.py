"""Looking across the ranks of a distributed run: rows in which several ranks were heard, and who stands apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traindx.finding import Blind, Muted
from traindx.run import Floats, Ints, Matrix, Run

SHARDED = ("fsdp", "fsdp2", "tp", "pp", "deepspeed", "zero")  # ranks hold different parts of one model by design


@dataclass(frozen=True)
class Rows:
    """The records in which at least two ranks were heard; NaN where one was not."""

    steps: Ints  # (T,)
    names: tuple[str, ...]
    values: Floats  # (T, ranks)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Which records are the same on all ranks that were heard."""
        return np.asarray(np.nanmax(self.values, axis=1) == np.nanmin(self.values, axis=1), dtype=bool)


def rows(run: Run, name: str, *, sharded: bool = True) -> Rows:
    """A rank matrix as rows; says why it cannot look when there is one process, one record, or a sharded model."""
    world = run.fact("world_size")
    if name not in run and isinstance(world, int | float) and world <= 1:
        raise Muted("a single process")
    if not sharded and str(run.fact("distributed") or "") in SHARDED:
        raise Muted(f"ranks differ by design under {run.fact('distributed')}")
    matrix: Matrix = run.matrix(name)
    heard = np.count_nonzero(np.isfinite(matrix.values), axis=1) >= 2 if len(matrix) else np.empty(0, bool)
    if len(matrix.names) < 2 or not np.any(heard):
        raise Blind(f"needs '{name}' of at least two ranks at the same step", name)
    values = np.where(np.isfinite(matrix.values), matrix.values, np.nan)
    return Rows(matrix.steps[heard], matrix.names, values[heard])


def apart(names: tuple[str, ...], values: Floats) -> tuple[str, ...]:
    """The ranks that differ from the majority in one record; all of them when there is no majority.

    >>> apart(("0", "1", "2"), np.array([5.0, 5.0, 7.0]))
    ('2',)
    """
    known = values[np.isfinite(values)]
    levels, counts = np.unique(known, return_counts=True)
    common = levels[np.argmax(counts)] if len(levels) else np.nan
    has_majority = len(levels) > 0 and counts.max() > len(known) / 2
    return tuple(n for n, v in zip(names, values, strict=True) if np.isfinite(v) and (not has_majority or v != common))


def label(name: str) -> str:
    """How a rank is called in a sentence.

    >>> label("3"), label("node-a")
    ('rank 3', 'node-a')
    """
    return f"rank {name}" if name.isdigit() else name


def number(name: str) -> int | None:
    """The rank as a number, where its name is one."""
    digits = name.removeprefix("rank").strip()
    return int(digits) if digits.isdigit() else None
