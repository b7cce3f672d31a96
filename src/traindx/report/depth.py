"""The depth map: every layer from input to loss with its gradient, update, activation and dead units; the offenders marked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from traindx.diagnosis import Diagnosis
from traindx.finding import Severity
from traindx.report import vitals
from traindx.report.narrative import text
from traindx.report.words import ICON, number
from traindx.run import Matrix, Run

MOST = 36  # rows; the offenders are always among them


@dataclass(frozen=True)
class Column:
    """One measured quantity of the map."""

    title: str
    signal: str
    log: bool = True


COLUMNS = (
    Column("gradient", "grad_norm/param"),
    Column("update / weight", "update_ratio/param"),
    Column("activation RMS", "act_rms/module"),
    Column("dead units", "dead_fraction/module", log=False),
)


def depth_map(d: Diagnosis) -> str:
    """A row per layer, input on top; empty when the run knows of fewer than two layers."""
    layers = _layers(d.run)
    if len(layers) < 2:
        return ""
    accused = _accused(d, layers)
    table = {c.signal: _readings(d.run, c.signal, layers) for c in COLUMNS}
    columns = [c for c in COLUMNS if table[c.signal]]
    if not columns:
        return ""
    shown = _picked(layers, accused)
    heads = "".join(f"<th>{c.title}</th>" for c in columns)
    limits = {c.signal: _limits(list(table[c.signal].values()), c.log) for c in columns}
    kinds = _classes(d.run)
    rows = "".join(
        f"<tr{' class=bad' if name in accused else ''}><td class=flag>{accused.get(name, '')}</td>"
        f'<td class="layer" title="{text(name, 200)}">{text(name, 200)} <span class="soft small">{text(kinds.get(name, ""), 40)}</span></td>'
        f"{''.join(_cell(c, table[c.signal].get(name), limits[c.signal]) for c in columns)}</tr>"
        for name in shown
    )
    left = len(layers) - len(shown)
    more = f" {left} layers without a finding are left out." if left else ""
    return (
        '<h2>Depth map</h2><p class="soft small">Input on top, loss at the bottom; medians of the last fifth of the finite records on a log scale. '
        f"The green stretch is the healthy range where there is one.{more}</p>"
        f'<div class="scroll"><table class="depth"><thead><tr><th></th><th>layer</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _layers(run: Run) -> list[str]:
    """Modules with parameters in forward order, where the model was seen; else what the matrices name, without the tail."""
    outline = run.fact("model.outline")
    owners = {_owner(n) for n in run.matrix("grad_norm/param").names} | {str(n) for n in run.matrix("act_rms/module").names}
    if isinstance(outline, list):
        rows = [o for o in outline if isinstance(o, dict) and o.get("name")]
        rows.sort(key=lambda o: o["order"] if isinstance(o.get("order"), int | float) else math.inf)
        known = [str(o["name"]) for o in rows if str(o["name"]) in owners]
        if known:
            return list(dict.fromkeys(known))
    return list(dict.fromkeys(_owner(n) for n in run.matrix("grad_norm/param").names))


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter


def _classes(run: Run) -> dict[str, str]:
    outline = run.fact("model.outline")
    rows = outline if isinstance(outline, list) else []
    return {str(o.get("name")): str(o.get("class", "")) for o in rows if isinstance(o, dict)}


def _readings(run: Run, signal: str, layers: list[str]) -> dict[str, float]:
    """The late median of each layer; of its largest parameter where it has several."""
    matrix: Matrix = run.matrix(signal)
    if not len(matrix):
        return {}
    alive = matrix.values[np.isfinite(matrix.values).any(axis=1)]
    late = alive[-max(1, len(alive) // 5) :]
    out: dict[str, float] = {}
    wanted = set(layers)
    for i, name in enumerate(matrix.names):
        place = name if name in wanted else _owner(name)
        known = late[:, i][np.isfinite(late[:, i])]
        if place not in wanted or (name.endswith("bias") and place in out):
            continue
        value = float(np.median(known)) if len(known) else math.inf if np.isinf(late[:, i]).any() else math.nan
        out.setdefault(place, value)
    return out


def _accused(d: Diagnosis, layers: list[str]) -> dict[str, str]:
    """Layer → the signs and codes of the findings that name it or one of its parameters, worst first."""
    out: dict[str, list[str]] = {}
    for f in d.findings:
        if f.severity is Severity.INFO:
            continue
        for where in f.where[:200]:
            place = next((x for x in (where, _owner(where)) if x in layers), None)
            chip = f'<span class="icon {f.severity.value}">{ICON[f.severity]}</span> {f.code}'
            if place is not None and chip not in out.setdefault(place, []):
                out[place].append(chip)
    return {name: "<br>".join(chips[:2]) for name, chips in out.items()}


def _picked(layers: list[str], accused: dict[str, str]) -> list[str]:
    if len(layers) <= MOST:
        return layers
    wanted = [n for n in layers if n in accused][: MOST // 2]
    evenly = {layers[int(i)] for i in np.linspace(0, len(layers) - 1, MOST - len(wanted))} | set(wanted)
    return [n for n in layers if n in evenly]


def _limits(values: list[float], log: bool) -> tuple[float, float]:
    if not log:
        return 0.0, 1.0
    known = [math.log10(v) for v in values if math.isfinite(v) and v > 0]
    if not known:
        return -1.0, 1.0
    return min(known) - 0.3, max(known) + 0.3


def _cell(c: Column, value: float | None, limits: tuple[float, float]) -> str:
    if value is None or math.isnan(value):
        return '<td class="soft">–</td>'
    if math.isinf(value):
        return '<td><span class="lab bad">not finite</span></td>'
    band = vitals.BANDS.get(c.signal)
    lo, hi = limits
    if band and c.log:
        lo, hi = min(lo, math.log10(max(band[0], 1e-12)) - 0.3), max(hi, math.log10(band[1]) + 0.3)
    place = _place(value, c.log, lo, hi)
    healthy = ""
    if band:
        a, b = _place(band[0], c.log, lo, hi), _place(band[1], c.log, lo, hi)
        healthy = f'<em style="left:{a:.1%};width:{max(b - a, 0.01):.1%}"></em>'
    said = f"{value:.0%}" if not c.log else "0" if value == 0 else number(value)
    return f'<td><span class="gauge" aria-hidden="true">{healthy}<i style="left:{place:.1%}"></i></span><span class="num">{said}</span></td>'


def _place(value: float, log: bool, lo: float, hi: float) -> float:
    level = (math.log10(value) if value > 0 else lo) if log else value
    return min(max((level - lo) / ((hi - lo) or 1.0), 0.0), 1.0)
