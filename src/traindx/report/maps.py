"""Heat maps, bars and the waterfall of a step, in the same language as the lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from traindx.report.charts import TAIL, tick, ticks
from traindx.report.thinning import blocks
from traindx.report.words import number, safe
from traindx.run import Floats, Matrix

LEVELS = 9


def heat_map(
    matrix: Matrix,
    *,
    title: str,
    rows: int = 40,
    columns: int = 120,
    log: bool = True,
    bad: tuple[str, ...] = (),
    shade: tuple[int, int] | None = None,
    note: str = "",
) -> str:
    """Layers over steps, input on top: each cell the median of its block; `bad` rows are named, `shade` frames the steps."""
    if not len(matrix) or not matrix.names:
        return ""
    matrix, cut = _cut(matrix)
    names, table, steps = blocks(matrix, rows, columns, bad)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.log10(np.where(table > 0, table, np.nan)) if log else table
    finite = shown[np.isfinite(shown)]
    lo, hi = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    edges = np.r_[0, steps - matrix.steps[0] + 1].tolist()  # a block reaches from the one before it to its last step
    cells = "".join(_row(i, table[i], shown[i], lo, hi, edges) for i in range(len(names)))
    if shade is not None:
        cells += _framed(int(matrix.steps[0]), edges[-1], shade, len(names))
    left = len(matrix.names) - len(names)
    more = f"{left} layers left out" if left else ""
    labels = "".join(_label(n, n in bad) for n in names)
    marks = "".join(
        f'<span class="tx{" odd" if i % 2 else ""}" style="left:{(at - matrix.steps[0]) / edges[-1]:.2%}">{at:,.0f}</span>'
        for i, at in enumerate(t for t in ticks(float(matrix.steps[0]), float(steps[-1]), 6) if t == round(t))
    )
    return (
        f'<figure class="chart heat"><figcaption><b>{escape(safe(title, 200))}</b>{scale(lo, hi, log)}'
        f'<span class="soft">{escape(safe("; ".join(w for w in (note, more, cut) if w), 200))}</span></figcaption>'
        f'<div class="heatbox"><ol class="rows" aria-hidden="true">{labels}</ol><div class="cells" style="height:{15 * len(names)}px" role="img" '
        f'aria-label="{escape(_said(title, names, table))}"><svg viewBox="0 0 {edges[-1]} {len(names)}" preserveAspectRatio="none" '
        f'aria-hidden="true" shape-rendering="crispEdges">{cells}</svg>{marks}</div></div></figure>'
    )


def _cut(matrix: Matrix) -> tuple[Matrix, str]:
    """Without the long tail in which nothing is finite any more."""
    known = np.flatnonzero(np.isfinite(matrix.values).any(axis=1))
    last = int(known[-1]) if len(known) else len(matrix)
    if len(matrix) < 10 or last > TAIL * len(matrix):
        return matrix, ""
    until = last + max(2, last // 3)
    return Matrix(
        matrix.steps[:until], matrix.names, matrix.values[:until]
    ), f"cut at step {matrix.steps[until - 1]:,}: nothing finite follows"


def _row(i: int, values: Floats, shown: Floats, lo: float, hi: float, edges: Sequence[int]) -> str:
    """One layer, neighbours of one colour drawn as one rectangle."""
    kinds = [_kind(v, s, lo, hi) for v, s in zip(values.tolist(), shown.tolist(), strict=True)]
    out, start = [], 0
    for j in range(1, len(kinds) + 1):
        if j == len(kinds) or kinds[j] != kinds[start]:
            out.append(
                f'<rect class="cell {kinds[start]}" x="{edges[start]}" y="{i}" width="{edges[j] - edges[start]}" height="0.94"/>'
            )
            start = j
    return "".join(out)


def _kind(value: float, shown: float, lo: float, hi: float) -> str:
    if math.isinf(value):
        return "bad"
    if not math.isfinite(shown):
        return "zero" if value == 0 else "none"
    return f"h{round((shown - lo) / ((hi - lo) or 1.0) * (LEVELS - 1))}"


def _framed(first: int, wide: int, shade: tuple[int, int], rows: int) -> str:
    x0, x1 = max(0, shade[0] - first), min(wide, shade[1] - first + 1)
    return f'<rect class="frame" x="{x0}" y="0" width="{x1 - x0}" height="{rows}"/>' if x1 > x0 else ""


def _label(name: str, bad: bool) -> str:
    label = escape(safe(name, 200))
    return (
        f'<li class="bad" title="{label}"><bdi>▸ <b>{label}</b></bdi></li>'
        if bad
        else f'<li title="{label}"><bdi>{label}</bdi></li>'
    )


def scale(lo: float, hi: float, log: bool) -> str:
    """The legend of a heat map."""
    low, high = (tick(10**lo), tick(10**hi)) if log else (tick(lo), tick(hi))
    swatches = "".join(f'<i class="h{i}"></i>' for i in range(LEVELS))
    return f'<span class="scale"><span>{low}</span>{swatches}<span>{high}</span></span>'


def _said(title: str, names: Sequence[str], table: Floats) -> str:
    last = [(n, float(v)) for n, v in zip(names, table[:, -1], strict=True) if math.isfinite(v)]
    if not last:
        return f"{safe(title, 120)}: nothing finite at the end."
    low, high = min(last, key=lambda p: p[1]), max(last, key=lambda p: p[1])
    return (
        f"{safe(title, 120)}: {len(names)} layers; at the end smallest {number(low[1])} in {safe(low[0], 60)}, "
        f"largest {number(high[1])} in {safe(high[0], 60)}."
    )


def bars(labels: Sequence[str], values: Sequence[float], *, title: str, share: bool = False, note: str = "") -> str:
    """Horizontal bars with their numbers."""
    if not labels:
        return ""
    most = max((v for v in values if math.isfinite(v)), default=0.0) or 1.0
    rows = "".join(
        f'<li><span class="name">{escape(safe(label, 60))}</span><span class="track"><i style="width:{_part(value, most):.1%}"></i></span>'
        f"<span class=num>{f'{value:.1%}' if share else number(value)}</span></li>"
        for label, value in zip(labels, values, strict=True)
    )
    return _listed(title, rows, note)


def waterfall(parts: Mapping[str, float], *, title: str, note: str = "") -> str:
    """The phases of one step after one another, each where it begins and as long as it takes (seconds)."""
    total = sum(parts.values())
    if total <= 0:
        return ""
    rows, begun = [], 0.0
    for name, seconds in parts.items():
        rows.append(
            f'<li><span class="name">{escape(safe(name, 60))}</span><span class="track">'
            f'<i style="margin-left:{begun / total:.2%};width:{max(seconds / total, 0.002):.2%}"></i></span>'
            f"<span class=num>{_seconds(seconds)} · {seconds / total:.0%}</span></li>"
        )
        begun += seconds
    return _listed(title, "".join(rows), note)


def _listed(title: str, rows: str, note: str) -> str:
    return (
        f'<figure class="chart"><figcaption><b>{escape(safe(title, 200))}</b><span class="soft">{escape(safe(note, 200))}</span></figcaption>'
        f'<ul class="bars">{rows}</ul></figure>'
    )


def _part(value: float, most: float) -> float:
    return min(max(value, 0.0) / most, 1.0) if math.isfinite(value) else 0.0


def _seconds(value: float) -> str:
    for limit, unit, factor in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"
