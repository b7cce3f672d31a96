"""A trial's picture: what was measured, drawn. SVG and HTML by ourselves, PNG where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from traindx.errors import EnvironmentFault, UsageError
from traindx.report.words import number, safe
from traindx.run import Floats, Matrix, Series
from traindx.trial import Result

COLOURS = ("#2a6fbb", "#c4572b", "#3b8f5a", "#8a5fb0", "#8a7a20")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 74, 54, 24, 56


@dataclass(frozen=True)
class Line:
    """A named curve."""

    name: str
    x: Floats
    y: Floats


@dataclass(frozen=True)
class Picture:
    """What to draw: curves with marked places, or a table of levels."""

    title: str
    said: str
    x_name: str = "step"
    y_name: str = ""
    lines: tuple[Line, ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    log_y: bool = False
    table: Floats | None = field(default=None, compare=False)
    axis: Floats | None = field(default=None, compare=False)


def picture(result: Result) -> Picture:
    """The picture of a result, from the run it recorded."""
    signals = result.run.signals
    base = (f"traindx trial {result.trial}: {result.result}", result.reason)
    if result.trial == "lr-range" and "trial/lr" in signals:
        line = Line("loss", signals["trial/lr"].values, signals["trial/loss"].values)
        named = {"start_lr": "start", "min_tenth": "min/10", "steep": "steepest", "valley": "valley"}
        marks = [(float(result.answer[k]), word) for k, word in named.items() if isinstance(result.answer.get(k), int | float)]
        return Picture(*base, x_name="learning rate", y_name="loss", lines=(line,), marks=tuple(marks[:4]), log_x=True)
    if result.trial == "landscape" and "loss" in result.answer:
        table = np.array(result.answer["loss"], dtype=float)
        axis = np.array(result.answer["axis"], dtype=float)
        if len(table) == 1:
            return Picture(*base, x_name="along the direction", y_name="loss", lines=(Line("loss", axis, table[0]),))
        return Picture(*base, x_name="first direction", y_name="second direction", table=table, axis=axis)
    lines = []
    for name, s in signals.items():
        if isinstance(s, Matrix):
            lines += [Line(column, s.steps.astype(float), values) for column, values in s.columns()]
        elif isinstance(s, Series):
            lines.append(Line(name.removeprefix("trial/"), s.steps.astype(float), s.values))
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines]) if lines else np.empty(0)
    wide = bool(len(values)) and float(values.min()) > 0 and float(values.max()) > 50 * float(values.min())
    return Picture(*base, x_name="measurement", lines=tuple(lines[:5]), log_y=wide)


def fragment(result: Result) -> str:
    """The picture for a notebook."""
    return svg(picture(result))


def save(result: Result, file: Path) -> None:
    """Write the picture; the ending of the name decides the format: .svg, .html or .png."""
    kind = file.suffix.lower()
    drawn = picture(result)
    try:
        if kind == ".png":
            _png(drawn, file)
        elif kind == ".svg":
            file.write_text(svg(drawn), encoding="utf-8")
        elif kind in (".html", ".htm"):
            page = f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(drawn.title)}</title><body>{svg(drawn)}</body></html>"
            file.write_text(page, encoding="utf-8")
        else:
            raise UsageError(f"a picture is a .svg, .html or .png file, not {file.name!r}")
    except OSError as why:
        raise EnvironmentFault(f"cannot write {file}: {why.strerror or why}") from None


# -- SVG


def svg(p: Picture) -> str:
    """The picture as one SVG element, white on every background."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(safe(p.title))}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold" font-size="14">{escape(safe(p.title))}</text>',
        f'<text x="{LEFT}" y="38" fill="#555">{escape(safe(p.said, 110))}</text>',
    ]
    parts += _heat(p) if p.table is not None else _curves(p)
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(p.x_name)}</text>')
    return "".join(parts) + "</svg>"


def _scale(values: Floats, lo: float, hi: float, log: bool) -> tuple[Floats, list[tuple[float, float]]]:
    """Values as places between lo and hi, and ticks as (place, value)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        v = np.log10(np.where(values > 0, values, np.nan)) if log else values.astype(float)
    finite = v[np.isfinite(v)]
    a, b = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    b = b if b > a else a + 1.0
    marks = np.linspace(a, b, 5)
    return lo + (v - a) / (b - a) * (hi - lo), [(lo + (m - a) / (b - a) * (hi - lo), float(10**m if log else m)) for m in marks]


def _curves(p: Picture) -> list[str]:
    lines = [line for line in p.lines if len(line.x)]
    if not lines:
        return [f'<text x="{LEFT}" y="120" fill="#555">nothing was measured over steps; the answer is in the numbers</text>']
    every_x = np.concatenate([*(line.x for line in lines), np.array([m for m, _ in p.marks])])
    xs, x_ticks = _scale(every_x, LEFT, WIDTH - RIGHT, p.log_x)
    ys, y_ticks = _scale(np.concatenate([_clipped(line.y) for line in lines]), HEIGHT - BOTTOM, TOP, p.log_y)
    parts, at = _frame(x_ticks, y_ticks), 0
    for i, line in enumerate(lines):
        points = [
            f"{x:.1f},{y:.1f}"
            for x, y in zip(xs[at : at + len(line.x)], ys[at : at + len(line.x)], strict=True)
            if np.isfinite(x) and np.isfinite(y)
        ]
        at += len(line.x)
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{" ".join(points)}"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT - 4}" y="{TOP + 14 + 15 * i}" text-anchor="end" fill="{colour}">{escape(safe(line.name, 40))}</text>'
        )
    for i, (x, (_, word)) in enumerate(zip(xs[at:], p.marks, strict=True)):
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#777" stroke-dasharray="4 3"/>'
            f'<text x="{x + 3:.1f}" y="{HEIGHT - BOTTOM - 6 - 13 * i}" fill="#444">{escape(word)}</text>'
        )
    return parts


def _clipped(y: Floats) -> Floats:
    """Without the blow-up at the end of a sweep, which would flatten everything else."""
    finite = y[np.isfinite(y)]
    if len(finite) < 8:
        return y
    lo, usual = float(finite.min()), float(np.quantile(finite, 0.8))
    return np.where(y > usual + 2 * (usual - lo) + 1e-12, np.nan, y) if usual > lo else y


def _frame(x_ticks: Sequence[tuple[float, float]], y_ticks: Sequence[tuple[float, float]]) -> list[str]:
    parts = []
    for place, value in x_ticks:
        parts.append(
            f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#333">{number(value)}</text>'
        )
    for place, value in y_ticks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{place + 4:.1f}" text-anchor="end" fill="#333">{number(value)}</text>')
    return parts


def _heat(p: Picture) -> list[str]:
    assert p.table is not None and p.axis is not None
    n, m = p.table.shape
    side = min((HEIGHT - TOP - BOTTOM) / n, (WIDTH - LEFT - 160) / m)
    finite = p.table[np.isfinite(p.table)]
    lo, hi = (float(finite.min()), float(np.quantile(finite, 0.95))) if len(finite) else (0.0, 1.0)
    parts = []
    for i in range(n):
        for j in range(m):
            v = p.table[i, j]
            share = min(max((v - lo) / max(hi - lo, 1e-30), 0.0), 1.0) if np.isfinite(v) else None
            shade = "#bbb" if share is None else f"hsl({220 - 190 * share:.0f} 65% {30 + 40 * share:.0f}%)"
            parts.append(
                f'<rect x="{LEFT + j * side:.1f}" y="{TOP + (n - 1 - i) * side:.1f}" width="{side + 0.4:.1f}" height="{side + 0.4:.1f}" '
                f'fill="{shade}"><title>{number(float(v))}</title></rect>'
            )
    right = LEFT + m * side + 18
    parts.append(f'<text x="{right:.0f}" y="{TOP + 14}">loss {number(lo)} (blue)</text>')
    parts.append(f'<text x="{right:.0f}" y="{TOP + 32}">to {number(hi)} (orange)</text>')
    for k in (0, m // 2, m - 1):
        x = LEFT + (k + 0.5) * side
        parts.append(f'<text x="{x:.0f}" y="{TOP + n * side + 16:.0f}" text-anchor="middle">{number(float(p.axis[k]))}</text>')
    return parts


# -- PNG


def _png(p: Picture, file: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentFault("a PNG is drawn with matplotlib, which is not installed; .svg and .html need nothing") from None
    figure = Figure(figsize=(8, 4.2), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if p.table is not None and p.axis is not None:
        top = float(np.nanquantile(p.table, 0.95))
        shown = axes.contourf(p.axis, p.axis, np.clip(p.table, None, top), 20)
        figure.colorbar(shown, label="loss")
    else:
        for line in p.lines:
            axes.plot(line.x, _clipped(line.y), label=safe(line.name, 40))
        for i, (x, word) in enumerate(p.marks):  # each word on a line of its own: marks often stand close together
            axes.axvline(x, color="#777", linestyle="--", linewidth=1)
            axes.text(x, 0.03 + 0.06 * i, f" {word}", transform=axes.get_xaxis_transform(), fontsize=8)
        if p.log_x:
            axes.set_xscale("log")
        if p.log_y:
            axes.set_yscale("log")
        if len(p.lines) > 1:
            axes.legend(fontsize=8)
    axes.set_title(f"{p.title}\n{safe(p.said, 90)}", fontsize=9)
    axes.set_xlabel(p.x_name)
    axes.set_ylabel(p.y_name)
    figure.savefig(file, bbox_inches="tight")
