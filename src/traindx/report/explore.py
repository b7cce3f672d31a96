"""Every signal as a plotly figure in plain JSON: lines of at most 2,000 points, heat maps of layers over steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx import signals
from traindx.report.stills import section
from traindx.report.thinning import blocks, numbers, thin
from traindx.report.vitals import SHARES
from traindx.report.words import safe
from traindx.run import Run, Series

POINTS = 2000
FIGURES = 160  # a report stays under 6 MB; the dashboard shows the rest
BYTES = 3_000_000  # of figures; plotly takes about 1.9 MB more

# Chapters by the beginning of a signal's name; the first that fits takes it.
GROUPS = (
    ("Loss and metrics", ("loss/", "accuracy/", "metric/", "confidence/")),
    ("Learning rate and clipping", ("lr", "clip/", "amp/")),
    ("Gradients", ("grad",)),
    ("Updates", ("update", "lost_updates", "adam", "decay_share")),
    ("Activations", ("act_", "dead", "dormant", "effective_rank", "feature_", "attn_", "bn_", "output", "logit", "logz")),
    ("Weights", ("weight", "row_norm")),
    ("Evaluation", ("eval/",)),
    ("Data", ("batch/", "epoch")),
    ("Time and memory", ("time/", "mem/", "throughput")),
    ("Ranks", ("rank/",)),
    ("Trials", ("trial/",)),
)


def group(name: str) -> str:
    """The chapter a signal stands in."""
    return next((title for title, starts in GROUPS if name.startswith(starts)), "Everything else")


def figures(run: Run) -> list[dict[str, Any]]:
    """The signals of a run by chapter, the ones people look for first; a landscape as a surface."""
    titles = [title for title, _ in GROUPS]
    names = sorted(run.signals, key=lambda n: (titles.index(group(n)) if group(n) in titles else 99, n))
    made: list[dict[str, Any]] = []
    left = BYTES
    for name in names:
        if len(run.signals[name]) < 2 or len(made) >= FIGURES:
            continue
        figure = _figure(run, name)
        left -= 12 * (len(figure["x"]) * (len(figure["z"]) if "z" in figure else 2))
        if left < 0:
            break
        made.append(figure)
    return made + _surfaces(run)


def _figure(run: Run, name: str) -> dict[str, Any]:
    signal = run.signals[name]
    spec = signals.spec(name)
    about = {"name": safe(name, 120), "group": group(name), "meaning": spec.meaning if spec else ""}
    if isinstance(signal, Series):
        steps, values = thin(signal.steps, signal.values, POINTS)
        return about | {"kind": "line", "x": steps.tolist(), "y": numbers(values)}
    names, table, at = blocks(signal, 60, 160)
    with np.errstate(invalid="ignore"):
        plain = name in SHARES or bool((table <= 0).any())
    return about | {
        "kind": "heat",
        "log": not plain,
        "x": at.tolist(),
        "y": [safe(n, 120) for n in names],
        "z": [numbers(row) for row in table],
    }


def _surfaces(run: Run) -> list[dict[str, Any]]:
    grid = section(run)
    if grid is None or len(grid[1]) == 1:
        return []
    axis, loss = grid
    about = {"name": "loss landscape", "group": "Trials", "meaning": "loss around the weights, in two random directions"}
    return [about | {"kind": "surface", "x": numbers(axis), "y": numbers(axis), "z": [numbers(row) for row in loss]}]
