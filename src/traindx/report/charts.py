"""Pictures as inline SVG: lines with a marked region and a healthy band, heat maps, bars, sparklines.

No scripts and no colours in them: colours come from the page's style sheet, so that light, dark and print share one picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from traindx.report.words import number, safe
from traindx.run import Floats, Ints, Matrix, Series

POINTS = 700  # what 700 pixels can show; minima and maxima survive the thinning


@dataclass(frozen=True)
class Trace:
    """A named line."""

    name: str
    steps: Ints
    values: Floats
    kind: str = "a"  # style class: a, b, c … muted


def trace(name: str, series: Series, kind: str = "a") -> Trace:
    return Trace(name, series.steps, series.values, kind)


def thin(steps: Ints, values: Floats, most: int = POINTS) -> tuple[Ints, Floats]:
    """At most `most` points that look the same: a one-step spike stays visible."""
    if len(values) <= most:
        return steps, values
    from tsdownsample import MinMaxLTTBDownsampler

    finite = np.where(
        np.isfinite(values), values, np.nanmedian(values[np.isfinite(values)]) if np.isfinite(values).any() else 0.0
    )
    keep = MinMaxLTTBDownsampler().downsample(steps.astype(np.float64), finite, n_out=most).astype(np.int64)
    broken = np.flatnonzero(~np.isfinite(values))[:50]
    keep = np.union1d(keep, broken)
    return steps[keep], values[keep]


def line_chart(
    traces: Sequence[Trace],
    *,
    title: str,
    width: int = 720,
    height: int = 220,
    shade: tuple[int, int] | None = None,
    band: tuple[float, float] | None = None,
    band_name: str = "healthy",
    log: bool | None = None,
    mark: int | None = None,
) -> str:
    """Lines over steps; `shade` marks the offending steps, `band` the healthy range, `mark` a single step."""
    traces = [t for t in traces if len(t.steps)]
    if not traces:
        return ""
    frame = _Frame.around(traces, width, height, band, log)
    parts = [_open(width, height, title)]
    if band is not None:
        parts.append(_band(frame, band, band_name))
    if shade is not None:
        parts.append(_shade(frame, shade))
    parts += _axes(frame)
    parts += [_path(frame, t) for t in traces]
    if mark is not None:
        x = frame.x(mark)
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{frame.top}" y2="{frame.bottom}"/>')
    parts += _legend(frame, traces)
    return "".join(parts) + "</svg>"


def heat_map(
    matrix: Matrix, *, title: str, width: int = 720, rows: int = 40, columns: int = 90, log: bool = True, unit: str = ""
) -> str:
    """Layers over steps: each cell the (log) median of its block. Grey is "not read", crosses are not finite."""
    if not len(matrix) or not matrix.names:
        return ""
    names, table, steps = blocks(matrix, rows, columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.log10(np.where(table > 0, table, np.nan)) if log else table
    finite = shown[np.isfinite(shown)]
    lo, hi = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    left, top, cell_h = 190, 26, 14
    cell_w = (width - left - 20) / max(len(steps), 1)
    height = top + cell_h * len(names) + 46
    parts = [_open(width, height, title)]
    for i, name in enumerate(names):
        y = top + i * cell_h
        label = safe(name, 200)
        short = label if len(label) <= 26 else "…" + label[-25:]
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{y + 11}" text-anchor="end"><title>{escape(label)}</title>{escape(short)}</text>'
        )
        for j in range(len(steps)):
            parts.append(_cell(left + j * cell_w, y, cell_w, cell_h, table[i, j], shown[i, j], lo, hi, steps[j]))
    parts.append(_scale(left, top + cell_h * len(names) + 8, lo, hi, log, unit))
    for j in (0, len(steps) - 1):
        x = left + (j + 0.5) * cell_w
        parts.append(
            f'<text class="tick" x="{x:.0f}" y="{top + cell_h * len(names) + 16}" text-anchor="middle">{steps[j]}</text>'
        )
    return "".join(parts) + "</svg>"


def bars(labels: Sequence[str], values: Sequence[float], *, title: str, width: int = 720, share: bool = False) -> str:
    """Horizontal bars with their numbers."""
    if not labels:
        return ""
    top, row = 26, 20
    height = top + row * len(labels) + 8
    most = max((v for v in values if math.isfinite(v)), default=0.0) or 1.0
    parts = [_open(width, height, title)]
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = top + i * row
        long = 0.0 if not math.isfinite(value) else max(0.0, value) / most * (width - 330)
        text = f"{value:.1%}" if share else number(value)
        parts.append(
            f'<text class="tick" x="184" y="{y + 13}" text-anchor="end">{escape(safe(label, 40))}</text>'
            f'<rect class="bar" x="190" y="{y + 3}" width="{long:.1f}" height="12" rx="2"/>'
            f'<text class="tick" x="{198 + long:.1f}" y="{y + 13}">{escape(text)}</text>'
        )
    return "".join(parts) + "</svg>"


def sparkline_svg(series: Series, width: int = 120, height: int = 24) -> str:
    """A curve the size of a word."""
    steps, values = thin(series.steps, series.values, 120)
    keep = np.isfinite(values)
    if keep.sum() < 2:
        return ""
    x, y = steps[keep].astype(float), values[keep]
    span_x, span_y = (x.max() - x.min()) or 1.0, (y.max() - y.min()) or 1.0
    points = " ".join(
        f"{2 + (a - x.min()) / span_x * (width - 4):.1f},{height - 3 - (b - y.min()) / span_y * (height - 6):.1f}"
        for a, b in zip(x, y, strict=True)
    )
    return f'<svg class="spark" width="{width}" height="{height}" aria-hidden="true"><polyline class="line a" points="{points}"/></svg>'


@dataclass(frozen=True)
class _Frame:
    left: float
    right: float
    top: float
    bottom: float
    x0: float
    x1: float
    y0: float
    y1: float
    log: bool

    @classmethod
    def around(
        cls, traces: Sequence[Trace], width: int, height: int, band: tuple[float, float] | None, log: bool | None
    ) -> _Frame:
        values = np.concatenate([t.values[np.isfinite(t.values)] for t in traces])
        steps = np.concatenate([t.steps for t in traces])
        if not len(values):
            values = np.array([0.0, 1.0])
        positive = bool((values > 0).all())
        use_log = positive and (values.max() / values.min() > 100 if log is None else log)
        lo, hi = float(values.min()), float(values.max())
        if band is not None and all(map(math.isfinite, band)):
            lo, hi = min(lo, band[0] if not use_log or band[0] > 0 else lo), max(hi, band[1])
        if use_log:
            lo, hi = math.log10(lo), math.log10(hi)
        pad = (hi - lo) * 0.06 or abs(hi) * 0.05 or 0.5
        return cls(
            64,
            width - 14,
            28,
            height - 26,
            float(steps.min()),
            float(max(steps.max(), steps.min() + 1)),
            lo - pad,
            hi + pad,
            use_log,
        )

    def x(self, step: float) -> float:
        share = (step - self.x0) / (self.x1 - self.x0)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def y(self, value: float) -> float:
        level = math.log10(value) if self.log and value > 0 else value
        if self.log and value <= 0:
            level = self.y0
        share = (level - self.y0) / (self.y1 - self.y0)
        return self.bottom - min(max(share, 0.0), 1.0) * (self.bottom - self.top)


def _open(width: int, height: int, title: str) -> str:
    label = escape(safe(title, 200))
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{label}" preserveAspectRatio="xMidYMid meet">'
        f'<title>{label}</title><text class="title" x="2" y="15">{label}</text>'
    )


def _ticks(lo: float, hi: float, count: int = 4) -> list[float]:
    raw = (hi - lo) / count
    if raw <= 0 or not math.isfinite(raw):
        return [lo]
    unit = 10 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first = math.ceil(lo / step) * step
    return [first + i * step for i in range(int((hi - first) / step + 1e-9) + 1)]


def _axes(f: _Frame) -> list[str]:
    out = []
    levels = [t for t in _ticks(f.y0, f.y1) if not f.log or abs(t - round(t)) < 1e-9] or [f.y0, f.y1]
    for level in levels:
        value = 10**level if f.log else level
        y = f.bottom - (level - f.y0) / (f.y1 - f.y0) * (f.bottom - f.top)
        text = number(0.0 if abs(value) < 1e-12 * max(abs(f.y0), abs(f.y1), 1) and not f.log else value)
        out.append(
            f'<line class="grid" x1="{f.left}" x2="{f.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{f.left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )
    for step in _ticks(f.x0, f.x1, 6):
        x = f.x(step)
        out.append(f'<text class="tick" x="{x:.1f}" y="{f.bottom + 16}" text-anchor="middle">{step:,.0f}</text>')
    return out


def _path(f: _Frame, t: Trace) -> str:
    steps, values = thin(t.steps, t.values)
    commands, pen = [], False
    crosses = []
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if not math.isfinite(value):
            crosses.append(f'<text class="broken" x="{f.x(step):.1f}" y="{f.top + 10}" text-anchor="middle">×</text>')
            pen = False
            continue
        commands.append(f"{'L' if pen else 'M'}{f.x(step):.1f} {f.y(value):.1f}")
        pen = True
    dots = ""
    if len(steps) <= 40:
        dots = "".join(
            f'<circle class="dot {t.kind}" cx="{f.x(s):.1f}" cy="{f.y(v):.1f}" r="2.5"/>'
            for s, v in zip(steps.tolist(), values.tolist(), strict=True)
            if math.isfinite(v)
        )
    return f'<path class="line {t.kind}" d="{"".join(commands)}"/>{dots}{"".join(crosses[:3])}'


def _shade(f: _Frame, steps: tuple[int, int]) -> str:
    x0, x1 = f.x(steps[0]), f.x(steps[1])
    return f'<rect class="shade" x="{x0:.1f}" y="{f.top}" width="{max(x1 - x0, 3):.1f}" height="{f.bottom - f.top}"/>'


def _band(f: _Frame, band: tuple[float, float], name: str) -> str:
    y0, y1 = f.y(max(band)), f.y(min(band))
    return (
        f'<rect class="band" x="{f.left}" y="{y0:.1f}" width="{f.right - f.left}" height="{max(y1 - y0, 1):.1f}"/>'
        f'<text class="tick bandname" x="{f.right - 4}" y="{y0 + 12:.1f}" text-anchor="end">{escape(name)}</text>'
    )


def _legend(f: _Frame, traces: Sequence[Trace]) -> list[str]:
    if len(traces) < 2:
        return []
    out, x = [], f.right
    for t in reversed(traces):
        label = safe(t.name, 30)
        x -= 7 * len(label) + 26
        out.append(
            f'<line class="line {t.kind}" x1="{x}" x2="{x + 14}" y1="11" y2="11"/><text class="tick" x="{x + 18}" y="15">{escape(label)}</text>'
        )
    return out


def blocks(matrix: Matrix, rows: int, columns: int) -> tuple[list[str], Floats, Ints]:
    """At most rows x columns cells: layers picked evenly, steps in blocks; a block with a non-finite value keeps it."""
    picked = np.unique(np.linspace(0, len(matrix.names) - 1, min(rows, len(matrix.names))).astype(int))
    groups = np.array_split(np.arange(len(matrix)), min(columns, len(matrix)))
    table = np.full((len(picked), len(groups)), np.nan)
    for j, group in enumerate(groups):
        block = matrix.values[group][:, picked]
        with np.errstate(all="ignore"):
            table[:, j] = np.where(np.isinf(block).any(axis=0), np.inf, _nanmedian(block))
    return [matrix.names[i] for i in picked], table, matrix.steps[[int(g[-1]) for g in groups]]


def _nanmedian(block: Floats) -> Floats:
    out = np.full(block.shape[1], np.nan)
    seen = np.isfinite(block).any(axis=0)
    if seen.any():
        out[seen] = np.nanmedian(np.where(np.isfinite(block[:, seen]), block[:, seen], np.nan), axis=0)
    return out


def _cell(x: float, y: float, w: float, h: float, value: float, shown: float, lo: float, hi: float, step: int) -> str:
    tip = f"<title>step {step}: {number(value)}</title>"
    if math.isinf(value):
        return f'<rect class="cell bad" x="{x:.1f}" y="{y}" width="{w + 0.3:.1f}" height="{h - 1}">{tip}</rect>'
    if not math.isfinite(shown):
        kind = "zero" if value == 0 else "none"
        return f'<rect class="cell {kind}" x="{x:.1f}" y="{y}" width="{w + 0.3:.1f}" height="{h - 1}">{tip}</rect>'
    level = round((shown - lo) / ((hi - lo) or 1.0) * 8)
    return f'<rect class="cell h{level}" x="{x:.1f}" y="{y}" width="{w + 0.3:.1f}" height="{h - 1}">{tip}</rect>'


def _scale(x: float, y: float, lo: float, hi: float, log: bool, unit: str) -> str:
    swatches = "".join(f'<rect class="cell h{i}" x="{x + 100 + i * 22}" y="{y + 14}" width="22" height="9"/>' for i in range(9))
    low, high = (number(10**lo), number(10**hi)) if log else (number(lo), number(hi))
    return f'{swatches}<text class="tick" x="{x + 94}" y="{y + 22}" text-anchor="end">{low}</text><text class="tick" x="{x + 304}" y="{y + 22}">{high} {escape(unit)}</text>'
