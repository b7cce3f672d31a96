"""Every signal as a plotly figure in plain JSON: lines of at most 2,000 points, heat maps of layers over steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx.report.charts import blocks, thin
from traindx.report.words import safe
from traindx.run import Floats, Matrix, Run, Series

POINTS = 2000
FIGURES = 80  # a report stays under 6 MB; the dashboard shows the rest

_FIRST = ("loss/", "accuracy/", "lr", "grad_norm", "update_ratio", "metric/", "weight", "act_", "dead", "time/", "mem/")


def figures(run: Run) -> list[dict[str, Any]]:
    """The signals of a run, the ones people look for first."""
    names = sorted(run.signals, key=lambda n: (next((i for i, p in enumerate(_FIRST) if n.startswith(p)), 99), n))
    made = [_figure(name, run.signals[name]) for name in names if len(run.signals[name]) > 1]
    return made[:FIGURES]


def _figure(name: str, signal: Series | Matrix) -> dict[str, Any]:
    if isinstance(signal, Series):
        steps, values = thin(signal.steps, signal.values, POINTS)
        return {"name": safe(name, 120), "kind": "line", "x": steps.tolist(), "y": numbers(values)}
    names, table, at = blocks(signal, 60, 200)
    return {
        "name": safe(name, 120),
        "kind": "heat",
        "x": at.tolist(),
        "y": [safe(n, 120) for n in names],
        "z": [numbers(row) for row in table],
    }


def numbers(values: Floats) -> list[float | None]:
    """Six digits are more than a screen shows; JSON has no NaN."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]
