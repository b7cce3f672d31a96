"""Small words and pictures that every report shares: sparklines, safe text, numbers, icons, colours."""

from __future__ import annotations

import math

import numpy as np

from traindx.finding import Severity
from traindx.plain import in_unit
from traindx.plain import safe as safe
from traindx.run import Run, Series

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
FLAT = 0.01  # a series that varies by less than this share of its largest value is drawn flat
ICON = {Severity.CRITICAL: "✖", Severity.WARNING: "▲", Severity.INFO: "●"}
ASCII_ICON = {Severity.CRITICAL: "x", Severity.WARNING: "!", Severity.INFO: "-"}
COLOUR = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
VERDICT_COLOUR = {
    "healthy": "green",
    "wait": "green",
    "stop-keep-best": "yellow",
    "fix-and-resume": "yellow",
    "fix-evaluation": "yellow",
    "restart": "red",
    "cannot-tell": "blue",
}
STATE_COLOUR = {"running": "green", "killed": "red", "exception": "red"}


def number(value: float) -> str:
    """A number a person reads at a glance."""
    if value is None or not math.isfinite(value):
        return "nan" if value is None or math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa}e{int(power)}"
    return f"{value:.4g}"


def sparkline(values: np.ndarray, width: int = 40, ascii_only: bool = False, *, at: np.ndarray | None = None) -> str:
    """A curve in one line of text; a column that holds a non-finite value shows as ×.

    `at`: how far along the line each value lies, 0 to 1, so that curves read at other steps can stand below one another;
    where nothing was read the latest value stands.
    """
    bars = ASCII_BARS if ascii_only else BARS
    cross = "x" if ascii_only else "×"
    values = np.asarray(values, float)
    if not len(values):
        return ""
    if at is None:
        width = min(width, len(values))
        at = np.arange(len(values)) / len(values)
    columns = np.minimum((np.asarray(at) * width).astype(int), width - 1)
    finite = values[np.isfinite(values)]
    if not len(finite):
        finite = np.zeros(1)
    scaled = np.log10 if finite.min() > 0 and finite.max() > 100 * finite.min() else np.asarray
    lo, hi = float(scaled(finite.min())), float(scaled(finite.max()))
    if finite.max() - finite.min() <= FLAT * np.abs(finite).max():
        height = float(np.abs(finite).max())  # a flat series is drawn flat, half-way up
        lo, hi = (lo + hi) / 2 - 0.55 * height, (lo + hi) / 2 + 0.45 * height
    span = hi - lo or 1.0
    out: list[str] = []
    for column in range(int(columns.max()) + 1):
        here = values[columns == column]
        if not len(here):
            out.append(out[-1] if out else " ")
        elif not np.isfinite(here).all():
            out.append(cross)
        else:
            level = (float(np.mean(scaled(here))) - lo) / span
            out.append(bars[int(min(max(level, 0.0), 1.0) * (len(bars) - 1) + 0.5)])
    return "".join(out)


def sparklines(curves: list[tuple[str, Series]], width: int = 40, ascii_only: bool = False) -> list[str]:
    """Curves in one line each, the same steps below one another."""
    begin = min((int(series.steps[0]) for _, series in curves), default=0)
    end = max((int(series.steps[-1]) for _, series in curves), default=0)
    width = min(width, end - begin + 1)
    return [
        sparkline(series.values, width, ascii_only, at=(series.steps - begin) / max(end - begin, 1)) for _, series in curves
    ]


def vital_curves(run: Run) -> list[tuple[str, Series]]:
    """The few curves everybody wants to see first."""
    wanted = ("loss/train", "loss/val", "accuracy/val", "lr", "grad_norm", "update_ratio")
    return [(name, run.series(name)) for name in wanted if len(run.series(name)) > 1]


def span(steps: tuple[int, int] | None, run: Run | None = None) -> str:
    """Steps as people write them; epochs, where the run counts those."""
    if steps is None:
        return ""
    said = f"step {steps[0]}" if steps[0] == steps[1] else f"steps {steps[0]}–{steps[1]}"
    return in_unit(said, str(run.fact("step_unit", "step"))) if run is not None else said


def read_as(run: Run, most: int = 6) -> str:
    """What the columns of somebody's log were taken for, in a line; empty for runs that were recorded, not imported."""
    columns: dict[str, str] = run.fact("columns", {})
    taken: dict[str, list[str]] = {}
    for column, signal in columns.items():
        taken.setdefault("" if signal.startswith("metric/") else signal, []).append(column)
    metrics = taken.pop("", [])
    parts = [f"{s} ← {' + '.join(c)}" for s, c in taken.items() if [s] != c]
    parts = parts[:most] + ([f"{len(parts) - most} more"] if len(parts) > most else [])
    for label, names in (("metrics", metrics), ("not used", list(run.fact("unmapped", ())))):
        if names:
            parts.append(
                f"{label}: {', '.join(names[:most])}" + (f" and {len(names) - most} more" if len(names) > most else "")
            )
    return " · ".join(safe(part, 400) for part in parts)
