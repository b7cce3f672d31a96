"""Vital signs: the few numbers a doctor reads first, with what is healthy, what is not, and what it would mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traindx.report.words import number
from traindx.run import Floats, Matrix, Run, Series

# Where a healthy run lies; only for quantities without a unit of their own (CATALOGUE 1.1).
BANDS: dict[str, tuple[float, float]] = {
    "update_ratio": (1e-4, 1e-2),
    "update_ratio/param": (1e-4, 1e-2),
    "dead_fraction/module": (0.0, 0.25),
}
# Quantities between 0 and 1: drawn on a plain scale.
SHARES = (
    "dead_fraction/module",
    "dormant_fraction/module",
    "act_saturated/module",
    "act_zero/module",
    "eval/recall/class",
    "grad_zero/param",
)


@dataclass(frozen=True)
class Sign:
    """One line of the table."""

    name: str
    signal: str
    series: Series
    now: str
    began: str
    healthy: str
    warning: str
    indicates: str


# name, signal, healthy, warning, what a warning indicates (CATALOGUE 1)
SIGNS = (
    ("Loss", "loss/train", "falls, then levels off", "rises, jumps or never moves", "learning rate, data or wiring"),
    (
        "Gradient norm",
        "grad_norm",
        "steady once the loss has fallen",
        "grows 10× and on, or exactly 0",
        "step size, depth, detached parts",
    ),
    (
        "Weight norm",
        "weight_norm",
        "slow growth or equilibrium",
        "grows 10×, or decays to nothing",
        "weight decay missing or too strong",
    ),
    ("Learning rate", "lr", "as planned", "under 0.1 % of its peak with steps left", "scheduler stepped in the wrong unit"),
    (
        "Batch-loss variance",
        "loss/sample_var",
        "explains the zig-zag of the curve",
        "the curve shakes 3× more than it",
        "step size, not sampling noise",
    ),
    (
        "Update size",
        "update_ratio",
        "1e-4 … 1e-2 of the weights",
        "above 0.1 or under 1e-6",
        "learning rate too high or too low",
    ),
)


def signs(run: Run) -> Iterator[Sign]:
    """The vital signs; one that this run did not record says so, because its absence is news too."""
    for name, signal, healthy, warning, indicates in SIGNS:
        series = run.series(signal)
        yield Sign(name, signal, series, _now(series), _began(series), healthy, warning, indicates)


def _now(series: Series) -> str:
    finite = series.finite()
    if not len(series):
        return "not recorded"
    if not len(finite):
        return "not finite"
    tail = finite.values[-max(1, len(finite) // 20) :]
    return number(float(np.median(tail))) if np.isfinite(series.last) else "not finite"


def _began(series: Series) -> str:
    finite = series.finite()
    return f"began {number(float(finite.values[0]))}" if len(finite) else ""


def envelope(matrix: Matrix) -> tuple[Floats, Floats]:
    """Smallest and largest finite value of each record; NaN where there is none."""
    known = np.isfinite(matrix.values)
    seen = known.any(axis=1)
    lo = np.where(seen, np.min(matrix.values, axis=1, where=known, initial=np.inf), np.nan)
    hi = np.where(seen, np.max(matrix.values, axis=1, where=known, initial=-np.inf), np.nan)
    return lo, hi


PHASES = {
    "waiting for data": "time/data",
    "forward": "time/forward",
    "backward": "time/backward",
    "optimizer": "time/optimizer",
    "evaluation": "time/eval",
    "checkpoint": "time/checkpoint",
    "traindx": "time/traindx",
    "rest": "time/rest",
}


def phases(run: Run) -> dict[str, float]:
    """Mean seconds of a step by phase, in the order they happen; means, so that rare long ones count."""
    if not len(run.series("time/step").finite()):
        return {}
    parts = {name: run.series(signal).finite() for name, signal in PHASES.items()}
    return {name: float(s.values.mean()) for name, s in parts.items() if len(s) and s.values.sum() > 0}
