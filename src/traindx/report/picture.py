"""Pictures of measurements: curves, dots side by side, levels, a surface; as SVG by ourselves, as PNG by matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from traindx.errors import EnvironmentFault, UsageError
from traindx.report.words import number, safe
from traindx.run import Floats

RAMP = [bytes.fromhex(c) for c in ("f2efe9", "bcd7da", "6fabb9", "2f758d", "123f55")]  # --h0 … --h8 of style.css
COLOURS = ("#2a6fbb", "#c4572b", "#3b8f5a", "#8a5fb0", "#8a7a20")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 400, 74, 66, 24, 56


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
    x_name: str = ""
    y_name: str = ""
    lines: tuple[Line, ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    log_y: bool = False
    groups: tuple[tuple[str, Floats], ...] = ()  # measurements side by side, a dot each
    levels: tuple[tuple[float, str], ...] = ()  # lines across, with their names
    band: tuple[float, float] | None = None  # a stretch of x that is shaded
    facts: tuple[tuple[str, str], ...] = ()  # numbers to read where nothing is to be drawn
    table: Floats | None = field(default=None, compare=False)
    axis: Floats | None = field(default=None, compare=False)


def save(p: Picture, file: Path) -> None:
    """Write the picture; the ending of the name decides the format: .svg, .html or .png."""
    kind = file.suffix.lower()
    try:
        if kind == ".png":
            png(p, file)
        elif kind == ".svg":
            file.write_text(svg(p), encoding="utf-8")
        elif kind in (".html", ".htm"):
            page = (
                f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(p.title)}</title><body>{svg(p)}</body></html>"
            )
            file.write_text(page, encoding="utf-8")
        else:
            raise UsageError(f"a picture is a .svg, .html or .png file, not {file.name!r}")
    except OSError as why:
        raise EnvironmentFault(f"cannot write {file}: {why.strerror or why}") from None


def svg(p: Picture) -> str:
    """The picture as one SVG element, white on every background."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(safe(p.title))}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold" font-size="14">{escape(safe(p.title))}</text>',
        *(
            f'<text x="{LEFT}" y="{36 + 15 * i}" fill="#555">{escape(line)}</text>'
            for i, line in enumerate(textwrap.wrap(safe(p.said, 210), 108)[:2])
        ),
    ]
    if p.table is not None:
        parts += _heat(p)
    elif p.facts:
        parts += _rows(p)
    else:
        parts += _dots(p) if p.groups else _curves(p)
    centre = (LEFT + WIDTH - RIGHT) / 2 if p.table is None else LEFT + p.table.shape[1] * _side(p.table) / 2
    parts.append(f'<text x="{centre:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(p.x_name)}</text>')
    if p.y_name and not p.facts:
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(p.y_name)}</text>')
    return "".join(parts) + "</svg>"


def _scale(values: Floats, lo: float, hi: float, log: bool) -> tuple[Floats, list[tuple[float, float]]]:
    """Values as places between lo and hi, and ticks at round numbers as (place, value)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        v = np.log10(np.where(values > 0, values, np.nan)) if log else values.astype(float)
    finite = v[np.isfinite(v)]
    a, b = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    b = b if b > a else a + (abs(a) or 1.0)
    ticks = _round_ticks(a, b, log)
    return lo + (v - a) / (b - a) * (hi - lo), [(lo + (m - a) / (b - a) * (hi - lo), float(10**m if log else m)) for m in ticks]


def _round_ticks(a: float, b: float, log: bool) -> list[float]:
    """Some four to eight round numbers between a and b."""
    if log:
        step = max(1, round((b - a) / 6))
        decades = [float(t) for t in range(math.ceil(a), math.floor(b) + 1, step)]
        if len(decades) >= 3:
            return decades
        powers = range(math.floor(a), math.ceil(b) + 1)
        return [t for k in powers for f in (1, 2, 5) if a <= (t := k + math.log10(f)) <= b] or decades
    rough = (b - a) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(f * power for f in (1, 2, 5, 10) if f * power >= rough)
    return [k * unit for k in range(math.ceil(a / unit - 1e-9), math.floor(b / unit + 1e-9) + 1)]


def _rows(p: Picture) -> list[str]:
    return [
        f'<text x="{LEFT}" y="{TOP + 40 + 26 * i}" fill="#555">{escape(safe(k, 40))}</text>'
        f'<text x="{LEFT + 260}" y="{TOP + 40 + 26 * i}" font-size="14">{escape(safe(v, 60))}</text>'
        for i, (k, v) in enumerate(p.facts)
    ]


def _dots(p: Picture) -> list[str]:
    values = np.concatenate([*(v for _, v in p.groups), np.array([y for y, _ in p.levels])])
    ys, y_ticks = _scale(values, HEIGHT - BOTTOM - 12, TOP + 12, p.log_y)
    parts, at = _frame([], y_ticks), 0
    room = (WIDTH - LEFT - RIGHT) / len(p.groups)
    for i, (name, group) in enumerate(p.groups):
        centre, colour = LEFT + (i + 0.5) * room, COLOURS[i % len(COLOURS)]
        places = ys[at : at + len(group)]
        at += len(group)
        for j, y in enumerate(places):
            if np.isfinite(y):
                x = centre + (((j * 0.618) % 1.0) - 0.5) * min(0.5 * room, 90) * (len(group) > 1)
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" fill-opacity="0.7"/>')
        middle = float(np.nanmedian(places)) if np.isfinite(places).any() else math.nan
        if middle == middle:
            wide = min(0.35 * room, 70)
            parts.append(
                f'<line x1="{centre - wide:.1f}" x2="{centre + wide:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" stroke="{colour}" stroke-width="2"/>'
            )
            parts.append(
                f'<text x="{centre + wide + 6:.1f}" y="{middle + 4:.1f}" fill="{colour}">{number(float(np.nanmedian(group)))}</text>'
            )
        parts.append(f'<text x="{centre:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{escape(safe(name, 40))}</text>')
    return parts + _levels(p, ys[at:])


def _levels(p: Picture, places: Floats) -> list[str]:
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#777" stroke-dasharray="6 4"/>'
        f'<text x="{LEFT + 4}" y="{y - 5:.1f}" fill="#444">{escape(safe(word, 60))}</text>'
        for y, (_, word) in zip(places, p.levels, strict=True)
        if np.isfinite(y)
    ]


def _curves(p: Picture) -> list[str]:
    lines = [line for line in p.lines if len(line.x)]
    if not lines:
        return [f'<text x="{LEFT}" y="120" fill="#555">nothing was measured over steps; the answer is in the numbers</text>']
    every_x = np.concatenate([*(line.x for line in lines), np.array([m for m, _ in p.marks])])
    xs, x_ticks = _scale(every_x, LEFT, WIDTH - RIGHT, p.log_x)
    heights = np.concatenate([*(_shown(p, line) for line in lines), np.array([y for y, _ in p.levels])])
    ys, y_ticks = _scale(heights, HEIGHT - BOTTOM, TOP, p.log_y)
    parts, at = _frame(x_ticks, y_ticks), 0
    if p.band:
        ends, _ = _scale(np.r_[every_x, p.band], LEFT, WIDTH - RIGHT, p.log_x)
        parts.append(
            f'<rect x="{ends[-2]:.1f}" y="{TOP}" width="{ends[-1] - ends[-2]:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="#3b8f5a" fill-opacity="0.15"/>'
        )
    for i, line in enumerate(lines):
        points = [
            f"{x:.1f},{y:.1f}"
            for x, y in zip(xs[at : at + len(line.x)], ys[at : at + len(line.x)], strict=True)
            if np.isfinite(x) and np.isfinite(y)
        ]
        at += len(line.x)
        colour = COLOURS[i % len(COLOURS)]
        if len(points) <= 12:  # few measurements are seen as what they are
            parts += [f'<circle cx="{q.partition(",")[0]}" cy="{q.partition(",")[2]}" r="4" fill="{colour}"/>' for q in points]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{" ".join(points)}"/>')
        if len(lines) > 1:
            parts.append(
                f'<text x="{WIDTH - RIGHT - 4}" y="{TOP + 14 + 15 * i}" text-anchor="end" fill="{colour}">{escape(safe(line.name, 40))}</text>'
            )
    for i, (x, (_, word)) in enumerate(zip(xs[at:], p.marks, strict=True)):
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#777" stroke-dasharray="4 3"/>'
            f'<text x="{x + (3 if x < 0.8 * WIDTH else -3):.1f}" y="{TOP + 12 + 14 * i}" fill="#444" '
            f'text-anchor="{"start" if x < 0.8 * WIDTH else "end"}">{escape(word)}</text>'
        )
    return parts + _levels(p, ys[at:])


def _shown(p: Picture, line: Line) -> Floats:
    """Without the blow-up after the lowest point of a sweep, which would flatten everything else; on a log scale it does not."""
    y = line.y
    if p.log_y:
        return y
    finite = y[np.isfinite(y)]
    if len(finite) < 8:
        return y
    lo, usual = float(finite.min()), float(np.quantile(finite, 0.8))
    after = np.arange(len(y)) > int(np.nanargmin(np.where(np.isfinite(y), y, np.nan)))
    return np.where(after & (y > usual + 2 * (usual - lo) + 1e-12), np.nan, y) if usual > lo else y


def _tick(value: float) -> str:
    """A round number without the zeros behind its point."""
    return number(value).replace(".00e", "e")


def _frame(x_ticks: Sequence[tuple[float, float]], y_ticks: Sequence[tuple[float, float]]) -> list[str]:
    parts = []
    for place, value in x_ticks:
        parts.append(f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#333">{_tick(value)}</text>')
    for place, value in y_ticks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{place + 4:.1f}" text-anchor="end" fill="#333">{_tick(value)}</text>')
    return parts


def _side(table: Floats) -> float:
    """Of a field of the map."""
    n, m = table.shape
    return float(min((HEIGHT - TOP - BOTTOM) / n, (WIDTH - LEFT - 160) / m))


def _shade(share: float) -> str:
    """The report's colours for large and small: pale is little, dark is much."""
    place = share * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    pairs = zip(RAMP[low], RAMP[low + 1], strict=True)
    return "#" + "".join(f"{round(a + (place - low) * (b - a)):02x}" for a, b in pairs)


def _heat(p: Picture) -> list[str]:
    assert p.table is not None and p.axis is not None
    n, m = p.table.shape
    side = _side(p.table)
    finite = p.table[np.isfinite(p.table)]
    lo, hi = (float(finite.min()), float(np.quantile(finite, 0.95))) if len(finite) else (0.0, 1.0)
    parts = []
    for i in range(n):
        for j in range(m):
            v = p.table[i, j]
            share = min(max((v - lo) / max(hi - lo, 1e-30), 0.0), 1.0) if np.isfinite(v) else None
            shade = "#bbb" if share is None else _shade(share)
            parts.append(
                f'<rect x="{LEFT + j * side:.1f}" y="{TOP + (n - 1 - i) * side:.1f}" width="{side + 0.4:.1f}" height="{side + 0.4:.1f}" '
                f'fill="{shade}"><title>{number(float(v))}</title></rect>'
            )
    right = LEFT + m * side + 18
    cx, cy = LEFT + m * side / 2, TOP + n * side / 2
    parts.append(
        f'<path d="M{cx - 7:.1f} {cy:.1f}h14M{cx:.1f} {cy - 7:.1f}v14" stroke="#c2571a" stroke-width="3"/>'
        f'<text x="{right:.0f}" y="{TOP + 188}">+ the weights as they are</text>'
    )
    for k in range(60):
        parts.append(f'<rect x="{right:.0f}" y="{TOP + 20 + 2 * k}" width="14" height="2.4" fill="{_shade(1 - k / 59)}"/>')
    parts.append(f'<text x="{right:.0f}" y="{TOP + 10}">loss</text>')
    parts.append(f'<text x="{right + 22:.0f}" y="{TOP + 30}">{number(hi)} and more</text>')
    parts.append(f'<text x="{right + 22:.0f}" y="{TOP + 140}">{number(lo)}</text>')
    for k in (0, m // 2, m - 1):
        x = LEFT + (k + 0.5) * side
        parts.append(f'<text x="{x:.0f}" y="{TOP + n * side + 16:.0f}" text-anchor="middle">{number(float(p.axis[k]))}</text>')
    return parts


# -- PNG


def png(p: Picture, file: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentFault("a PNG is drawn with matplotlib, which is not installed; .svg and .html need nothing") from None
    figure = Figure(figsize=(8, 4.2), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if p.table is not None and p.axis is not None:
        top = float(np.nanquantile(p.table, 0.95))
        ramp = LinearSegmentedColormap.from_list("traindx", [_shade(k / 8) for k in range(9)])
        shown = axes.contourf(p.axis, p.axis, np.clip(p.table, None, top), 20, cmap=ramp)
        axes.plot(0, 0, "+", color="#c2571a", markersize=12, markeredgewidth=2)
        axes.set_aspect("equal")
        figure.colorbar(shown, label="loss")
    elif p.facts:
        axes.axis("off")
        for i, (key, value) in enumerate(p.facts):
            axes.text(0.02, 0.92 - 0.09 * i, safe(key, 40), color="#555", transform=axes.transAxes)
            axes.text(0.40, 0.92 - 0.09 * i, safe(value, 60), fontsize=11, transform=axes.transAxes)
    elif p.groups:
        for i, (_, values) in enumerate(p.groups):
            spread = (((np.arange(len(values)) * 0.618) % 1.0) - 0.5) * 0.4 * (len(values) > 1)
            axes.scatter(i + spread, values, color=COLOURS[i % len(COLOURS)], alpha=0.7)
            middle = float(np.nanmedian(np.where(np.isfinite(values), values, np.nan)))
            axes.plot([i - 0.25, i + 0.25], [middle, middle], color=COLOURS[i % len(COLOURS)], linewidth=2)
            axes.annotate(number(middle), (i + 0.28, middle), va="center", color=COLOURS[i % len(COLOURS)], fontsize=9)
        axes.set_xticks(range(len(p.groups)), [safe(name, 40) for name, _ in p.groups])
        axes.set_xlim(-0.6, len(p.groups) - 0.2)
    else:
        for i, line in enumerate(p.lines):
            dots = "o" if len(line.x) <= 12 else None
            axes.plot(line.x, _shown(p, line), label=safe(line.name, 40), color=COLOURS[i % len(COLOURS)], marker=dots)
        if p.band:
            axes.axvspan(*p.band, color="#3b8f5a", alpha=0.15, linewidth=0)
        for i, (x, word) in enumerate(p.marks):  # each word on a line of its own: marks often stand close together
            axes.axvline(x, color="#777", linestyle="--", linewidth=1)
            late = x > np.quantile(np.concatenate([line.x for line in p.lines]), 0.9)
            where: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "fontsize": 8, "ha": "right" if late else "left"}
            axes.text(x, 0.95 - 0.06 * i, f" {word} ", **where)
        if p.log_x:
            axes.set_xscale("log")
        if len(p.lines) > 1:
            axes.legend(fontsize=8, frameon=False)
    for y, word in p.levels:
        axes.axhline(y, color="#777", linestyle="--", linewidth=1)
        axes.text(0.01, y, f" {safe(word, 60)}", transform=axes.get_yaxis_transform(), fontsize=8, va="bottom", color="#444")
    if p.log_y:
        axes.set_yscale("log")
    if not p.facts and p.table is None:
        axes.grid(axis="y", color="#e4e4e4")
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    axes.set_title("\n".join([p.title, *textwrap.wrap(safe(p.said, 260), 110)]), fontsize=9, loc="left")
    axes.set_xlabel(p.x_name)
    axes.set_ylabel(p.y_name)
    figure.savefig(file, bbox_inches="tight")
