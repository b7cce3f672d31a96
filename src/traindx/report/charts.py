"""Lines over steps as inline SVG: the offending steps marked, the healthy band drawn, the forecast as a fan.

No scripts and no colours in them: colours come from the page's style sheet, so that light, dark and print share one picture.
The drawing is stretched to the place it gets; ticks and labels are text next to it, so they keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from traindx.report.thinning import smooth, thin
from traindx.report.words import number, safe
from traindx.run import Floats, Ints, Series

NOISY = 200  # from so many points on, a curve also gets a smoothed line
TAIL = 0.4  # a curve that is finite over less than this share of its steps is cut behind its end
W, H = 1000.0, 1000.0  # the drawing's own units; it is stretched


@dataclass(frozen=True)
class Trace:
    """A named line."""

    name: str
    steps: Ints
    values: Floats
    kind: str = "a"  # style class: a, b, c, d, muted


@dataclass(frozen=True)
class Fan:
    """What lies ahead: from the last point to (`lo`, `middle`, `hi`) at `step`; or a spread around a line."""

    step: int
    lo: float
    middle: float
    hi: float
    name: str = "forecast"


@dataclass(frozen=True)
class Spread:
    """A filled range around lines: quantiles, or smallest to largest."""

    steps: Ints
    lo: Floats
    hi: Floats
    kind: str = "a"


def trace(name: str, series: Series, kind: str = "a") -> Trace:
    return Trace(name, series.steps, series.values, kind)


def line_chart(
    traces: Sequence[Trace],
    *,
    title: str,
    height: int = 220,
    shade: tuple[int, int] | None = None,
    shade_name: str = "",
    shade_kind: str = "critical",
    band: tuple[float, float] | None = None,
    band_name: str = "healthy",
    log: bool | None = None,
    mark: tuple[int, str] | None = None,
    fan: Fan | None = None,
    spreads: Sequence[Spread] = (),
    note: str = "",
) -> str:
    """Lines over steps; `shade` marks the offending steps, `band` the healthy range, `mark` a single step with its name."""
    traces = [t for t in traces if len(t.steps)]
    if not traces:
        return ""
    traces, note = _cut(traces, note)
    frame = _Frame.around(traces, spreads, band, log, fan)
    parts = []
    if band is not None:
        parts.append(_band(frame, band, band_name))
    if shade is not None:
        parts.append(_shade(frame, shade, shade_name, shade_kind))
    parts += _axes(frame)
    parts += [_spread(frame, s) for s in spreads]
    parts += [_path(frame, t) for t in traces]
    if fan is not None:
        parts.append(_fan(frame, fan, traces[0]))
    if mark is not None:
        parts.append(_mark(frame, *mark))
    drawn = "".join(svg for svg, _ in parts)
    words = "".join(html for _, html in parts)
    label = escape(f"{safe(title, 120)}. {_said(traces)}")
    return (
        f'<figure class="chart"><figcaption><b>{escape(safe(title, 200))}</b>{_legend(traces)}'
        f"{f'<span class=soft>{escape(safe(note, 200))}</span>' if note else ''}</figcaption>"
        f'<div class="plotbox" style="height:{height}px" role="img" aria-label="{label}"><div class="inner">'
        f'<svg viewBox="0 0 {W:.0f} {H:.0f}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>{words}</div></div></figure>'
    )


def _cut(traces: list[Trace], note: str) -> tuple[list[Trace], str]:
    """Without the long tail of a run in which nothing is finite any more: the steps before it are what one wants to see."""
    begin, end = min(int(t.steps[0]) for t in traces), max(int(t.steps[-1]) for t in traces)
    ends = [int(t.steps[np.flatnonzero(np.isfinite(t.values))[-1]]) for t in traces if np.isfinite(t.values).any()]
    last = max(ends, default=end)
    if last - begin > TAIL * (end - begin):
        return traces, note
    until = last + max(5, (last - begin) // 3)
    kept = [Trace(t.name, t.steps[t.steps <= until], t.values[t.steps <= until], t.kind) for t in traces]
    return [t for t in kept if len(t.steps)], "; ".join(
        w for w in (note, f"cut at step {until:,}: nothing finite follows") if w
    )


def sparkline_svg(series: Series, width: int = 120, height: int = 24) -> str:
    """A curve the size of a word."""
    steps, values = thin(series.steps, series.values, 120)
    keep = np.isfinite(values)
    if keep.sum() < 2:
        return ""
    x, y = steps[keep].astype(float), values[keep]
    if y.min() > 0 and y.max() > 100 * y.min():
        y = np.log10(y)
    span_x, span_y = (x.max() - x.min()) or 1.0, (y.max() - y.min()) or 1.0
    points = " ".join(
        f"{2 + (a - x.min()) / span_x * (width - 4):.1f},{height - 3 - (b - y.min()) / span_y * (height - 6):.1f}"
        for a, b in zip(x, y, strict=True)
    )
    return f'<svg class="spark" width="{width}" height="{height}" aria-hidden="true"><polyline class="line a" points="{points}"/></svg>'


@dataclass(frozen=True)
class _Frame:
    x0: float
    x1: float
    y0: float
    y1: float
    log: bool

    @classmethod
    def around(
        cls,
        traces: Sequence[Trace],
        spreads: Sequence[Spread],
        band: tuple[float, float] | None,
        log: bool | None,
        fan: Fan | None,
    ) -> _Frame:
        steps = np.concatenate([t.steps for t in traces]).astype(float)
        every = [t.values for t in traces] + [e for s in spreads for e in (s.lo, s.hi)]
        values = np.concatenate([v[np.isfinite(v)] for v in every])
        if not len(values):
            values = np.array([0.0, 1.0])
        use_log = bool((values > 0).all()) and (values.max() / values.min() > 100 if log is None else log)
        lo, hi = float(values.min()), float(values.max())
        extra = [*(band or ()), *((fan.lo, fan.hi) if fan else ())]
        inside = [v for v in extra if math.isfinite(v) and (v > 0 or not use_log)]
        lo, hi = min([lo, *inside]), max([hi, *inside])
        if use_log:
            lo, hi = math.log10(lo), math.log10(hi)
        pad = (hi - lo) * 0.07 or abs(hi) * 0.05 or 0.5
        end = max(steps.max(), steps.min() + 1, float(fan.step) if fan else -math.inf)
        return cls(float(steps.min()), float(end), lo - pad, hi + pad, use_log)

    def x(self, step: float) -> float:
        return min(max((step - self.x0) / (self.x1 - self.x0), 0.0), 1.0) * W

    def y(self, value: float) -> float:
        level = value if not self.log else math.log10(value) if value > 0 else self.y0
        return H - min(max((level - self.y0) / (self.y1 - self.y0), 0.0), 1.0) * H


Part = tuple[str, str]  # what is drawn, what is written


def ticks(lo: float, hi: float, count: int = 4) -> list[float]:
    """Round numbers between two bounds."""
    raw = (hi - lo) / count
    if raw <= 0 or not math.isfinite(raw):
        return [lo]
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first = math.ceil(lo / step) * step
    return [first + i * step for i in range(int((hi - first) / step + 1e-9) + 1)]


def tick(value: float) -> str:
    """A number as an axis shows it.

    >>> tick(1e10), tick(0.25), tick(2e-05)
    ('1e10', '0.25', '2e-5')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}"
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(power)}"


def _axes(f: _Frame) -> list[Part]:
    out: list[Part] = []
    levels = ticks(f.y0, f.y1)
    if f.log:
        levels = [t for t in levels if abs(t - round(t)) < 1e-9] or [f.y0 + 0.1 * (f.y1 - f.y0), f.y1 - 0.1 * (f.y1 - f.y0)]
    for level in levels:
        value = 10**level if f.log else level
        share = (f.y1 - level) / (f.y1 - f.y0)
        text = tick(0.0 if abs(value) < 1e-9 * max(abs(f.y0), abs(f.y1)) and not f.log else value)
        y = share * H
        out.append(
            (
                f'<line class="grid" x1="0" x2="{W:.0f}" y1="{y:.0f}" y2="{y:.0f}"/>',
                f'<span class="ty" style="top:{share:.2%}">{text}</span>',
            )
        )
    for i, step in enumerate(s for s in ticks(f.x0, f.x1, 5) if s == round(s)):
        kind = "tx odd" if i % 2 else "tx"
        out.append(("", f'<span class="{kind}" style="left:{f.x(step) / W:.2%}">{step:,.0f}</span>'))
    return out


def _path(f: _Frame, t: Trace) -> Part:
    """The curve; a noisy one also smoothed, and what is not finite as a hatched stretch with its first step."""
    steps, values = thin(t.steps, t.values)
    noisy = len(steps) >= NOISY and t.kind != "muted" and _restless(values)
    drawn = f'<path class="line {t.kind}{" raw" if noisy else ""}" d="{_commands(f, steps, values)}"/>'
    if noisy:
        drawn += f'<path class="line {t.kind}" d="{_commands(f, steps, smooth(values, max(9, len(values) // 35)))}"/>'
    if len(steps) <= 60:
        dots = "".join(
            f"M{f.x(s):.1f} {f.y(v):.1f}h0" for s, v in zip(steps.tolist(), values.tolist(), strict=True) if math.isfinite(v)
        )
        drawn += f'<path class="dots {t.kind}" d="{dots}"/>'
    broken = np.flatnonzero(~np.isfinite(t.values))
    if not len(broken):
        return drawn, ""
    first = int(t.steps[broken[0]])
    lasting = not np.isfinite(t.values[broken[0] :]).any()
    if len(t.values) == len(broken):
        return drawn, ""
    x0, x1 = f.x(first), W if lasting else f.x(first)
    drawn += f'<rect class="broken" x="{x0:.1f}" y="0" width="{max(x1 - x0, 3):.1f}" height="{H:.0f}"/>'
    side = "left" if x0 < 0.6 * W else "right"
    at = x0 / W if side == "left" else 1 - x0 / W
    words = f"× not finite {'from' if lasting else 'at'} step {first:,}"
    return drawn, f'<span class="lab bad" style="{side}:{at:.2%};top:{14 if t.kind == "a" else 27}%">{words}</span>'


def _restless(values: Floats) -> bool:
    finite = values[np.isfinite(values)]
    if len(finite) < NOISY // 2:
        return False
    spread = float(finite.max() - finite.min())
    return bool(np.median(np.abs(np.diff(finite))) > 0.01 * spread) if spread > 0 else False


def _commands(f: _Frame, steps: Ints, values: Floats) -> str:
    out, pen = [], False
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if not math.isfinite(value):
            pen = False
            continue
        out.append(f"{'L' if pen else 'M'}{f.x(step):.1f} {f.y(value):.1f}")
        pen = True
    return "".join(out)


def _shade(f: _Frame, steps: tuple[int, int], name: str, kind: str) -> Part:
    x0, x1 = f.x(steps[0]), f.x(steps[1])
    drawn = f'<rect class="shade {kind}" x="{x0:.1f}" y="0" width="{max(x1 - x0, 4):.1f}" height="{H:.0f}"/><path class="edge {kind}" d="M{x0:.1f} 0V{H:.0f}"/>'
    if not name:
        return drawn, ""
    side = f"left:{x0 / W:.2%}" if x0 < 0.4 * W else f"right:{1 - min(x1, W) / W:.2%}"
    return drawn, f'<span class="lab {kind}" style="{side};top:1%">{escape(safe(name, 60))}</span>'


def _band(f: _Frame, band: tuple[float, float], name: str) -> Part:
    top, bottom = f.y(max(band)), f.y(min(band))
    return (
        f'<rect class="band" x="0" y="{top:.1f}" width="{W:.0f}" height="{max(bottom - top, 8):.1f}"/>',
        f'<span class="lab good" style="right:0;top:{top / H:.2%}">{escape(safe(name, 60))}</span>',
    )


def _spread(f: _Frame, s: Spread) -> Part:
    keep = np.isfinite(s.lo) & np.isfinite(s.hi)
    steps, lo, hi = s.steps[keep], s.lo[keep], s.hi[keep]
    if len(steps) > 160:
        groups = np.array_split(np.arange(len(steps)), 160)
        steps = steps[[int(g[0]) for g in groups]]
        lo, hi = np.array([lo[g].min() for g in groups]), np.array([hi[g].max() for g in groups])
    there = [f"{f.x(a):.1f} {f.y(b):.1f}" for a, b in zip(steps.tolist(), hi.tolist(), strict=True)]
    back = [f"{f.x(a):.1f} {f.y(b):.1f}" for a, b in zip(steps.tolist()[::-1], lo.tolist()[::-1], strict=True)]
    return (f'<path class="fan {s.kind}" d="M{"L".join([*there, *back])}Z"/>' if there else "", "")


def _fan(f: _Frame, fan: Fan, of: Trace) -> Part:
    finite = np.flatnonzero(np.isfinite(of.values))
    if not len(finite):
        return "", ""
    tail = finite[-max(1, len(finite) // 20) :]
    x0, y0 = f.x(float(of.steps[finite[-1]])), f.y(float(np.median(of.values[tail])))
    x1 = f.x(fan.step)
    drawn = (
        f'<path class="fan {of.kind}" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {f.y(fan.hi):.1f}L{x1:.1f} {f.y(fan.lo):.1f}Z"/>'
        f'<path class="line {of.kind} ahead" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {f.y(fan.middle):.1f}"/>'
    )
    said = f"{fan.name} {number(fan.middle)} ({number(fan.lo)}–{number(fan.hi)})"
    return drawn, f'<span class="lab" style="right:0;top:calc({f.y(fan.hi) / H:.2%} - 20px)">{escape(safe(said, 80))}</span>'


def _mark(f: _Frame, step: int, name: str) -> Part:
    x = f.x(step)
    side = f"left:{x / W:.2%}" if x < 0.6 * W else f"right:{1 - x / W:.2%}"
    return (
        f'<path class="mark" d="M{x:.1f} 0V{H:.0f}"/>',
        f'<span class="lab" style="{side};bottom:1%">{escape(safe(name, 60))}</span>',
    )


def _legend(traces: Sequence[Trace]) -> str:
    if len(traces) < 2:
        return ""
    return "".join(f'<span class="key {t.kind}">{escape(safe(t.name, 40))}</span>' for t in traces)


def _said(traces: Sequence[Trace]) -> str:
    """The picture in words, for those who cannot see it."""
    out = []
    for t in traces:
        finite = t.values[np.isfinite(t.values)]
        if len(finite):
            out.append(f"{safe(t.name, 40)} from {number(float(finite[0]))} to {number(float(finite[-1]))}")
    return f"{'; '.join(out)}; steps {int(traces[0].steps[0])} to {int(traces[0].steps[-1])}."
