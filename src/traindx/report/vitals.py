"""Vital signs: the few numbers a doctor reads first, with what is healthy, what is not, and what it would mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traindx.report.words import number
from traindx.run import Run, Series

# Where a healthy run lies; only for quantities without a unit of their own (CATALOGUE 1.1).
BANDS: dict[str, tuple[float, float]] = {
    "update_ratio": (1e-4, 1e-2),
    "update_ratio/param": (1e-4, 1e-2),
    "dead_fraction/module": (0.0, 0.25),
    "accuracy/train": (0.0, 1.0),
}


@dataclass(frozen=True)
class Sign:
    """One line of the table."""

    name: str
    series: Series
    now: str
    healthy: str
    warning: str
    indicates: str


def signs(run: Run) -> Iterator[Sign]:
    """The vital signs this run recorded."""
    rows = (
        ("loss", "loss/train", "falls, then levels off", "rises, jumps or never moves", "learning rate, data or wiring"),
        (
            "gradient norm",
            "grad_norm",
            "steady after the first fall of the loss",
            "grows 10× and on, or exactly 0",
            "step size, depth, detached parts",
        ),
        (
            "weight norm",
            "weight_norm",
            "slow growth or equilibrium",
            "linear growth 10× or decay to nothing",
            "missing or too strong weight decay",
        ),
        ("learning rate", "lr", "as planned", "under 0.1 % of its peak with steps left", "scheduler stepped in the wrong unit"),
        (
            "batch-loss variance",
            "loss/sample_var",
            "explains the zig-zag of the curve",
            "the curve shakes 3× more than it",
            "step size, not sampling noise",
        ),
        (
            "update size",
            "update_ratio",
            "1e-4 … 1e-2 of the weights",
            "above 0.1 or under 1e-6",
            "learning rate too high or too low",
        ),
    )
    for name, signal, healthy, warning, indicates in rows:
        series = run.series(signal)
        if len(series):
            yield Sign(name, series, _now(series), healthy, warning, indicates)


def _now(series: Series) -> str:
    finite = series.finite()
    if not len(finite):
        return "not finite"
    tail = finite.values[-max(1, len(finite) // 20) :]
    now = float(np.median(tail))
    ended = "" if np.isfinite(series.last) else ", ends not finite"
    return f"{number(now)} (began {number(float(finite.values[0]))}){ended}"


def time_shares(run: Run) -> dict[str, float]:
    """Shares of the median step by phase."""
    total = run.series("time/step").finite()
    if not len(total) or np.median(total.values) <= 0:
        return {}
    parts = {p: run.series(f"time/{p}").finite() for p in ("data", "forward", "backward", "optimizer", "rest")}
    return {p: float(np.median(s.values) / np.median(total.values)) for p, s in parts.items() if len(s)}
