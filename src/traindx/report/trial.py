"""A trial's picture: what of its result is drawn, and how it is saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from traindx.report import picture as pictures
from traindx.report.picture import Line, Picture, svg
from traindx.report.words import number
from traindx.run import Floats, Matrix, Series
from traindx.trial import Result


def picture(result: Result) -> Picture:
    """The picture of a result, from the run it recorded."""
    base = Picture(f"traindx trial {result.trial}: {result.result}", result.reason)
    drawn = DRAWN.get(result.trial, _plain)
    if result.answer.get("driven") and result.trial in ("precision", "determinism"):
        drawn = _losses  # read off whole runs, not off one step
    return drawn(base, result, {n.removeprefix("trial/"): s for n, s in result.run.signals.items()})


Signals = Mapping[str, Series | Matrix]


def _plain(base: Picture, result: Result, signals: Signals) -> Picture:
    lines = [
        Line(name, s.steps.astype(float), values)
        for key, s in signals.items()
        for name, values in (s.columns() if isinstance(s, Matrix) else ((key, s.values),))
    ]
    if not any(len(line.x) for line in lines):
        return replace(base, facts=_facts(result))
    return replace(base, x_name="measurement", lines=tuple(lines[:5]), log_y=_wide([line.y for line in lines]))


def _losses(base: Picture, result: Result, signals: Signals) -> Picture:
    return replace(_plain(base, result, signals), x_name="step", y_name="loss")


def _sweep(base: Picture, result: Result, signals: Signals) -> Picture:
    if "lr" not in signals:
        return _plain(base, result, signals)
    lines = [Line(key, signals["lr"].values, signals[key].values) for key in ("loss", "smoothed") if key in signals]
    named = {"start_lr": "start", "now": "yours", "min_tenth": "min/10", "steep": "steepest", "valley": "valley"}
    marks = [(float(result.answer[k]), word) for k, word in named.items() if isinstance(result.answer.get(k), int | float)]
    low, high = result.answer.get("interval", (math.nan, math.nan))
    band = (float(low), float(high)) if low < high else None
    return replace(
        base, x_name="learning rate", y_name="loss", lines=tuple(lines), marks=tuple(marks[:4]), log_x=True, band=band
    )


def _surface(base: Picture, result: Result, signals: Signals) -> Picture:
    if "loss" not in result.answer:
        return _plain(base, result, signals)
    table, axis = (np.array(result.answer[k], dtype=float) for k in ("loss", "axis"))
    if len(table) == 1:
        line = Line("loss", axis, table[0])
        return replace(base, x_name="along the direction", y_name="loss", lines=(line,), marks=((0.0, "here"),))
    return replace(base, x_name="first direction", y_name="second direction", table=table, axis=axis)


def _fit(base: Picture, result: Result, signals: Signals) -> Picture:
    levels = [
        (float(result.answer[k]), str(result.answer.get("floor_name", k)))
        for k in ("stuck_at", "floor")
        if isinstance(result.answer.get(k), int | float) and float(result.answer[k]) > 0
    ]
    return replace(_plain(base, result, signals), x_name="step", y_name="loss of the batch", levels=tuple(levels[:1]))


def _arms(base: Picture, result: Result, signals: Signals) -> Picture:
    """Measurements side by side: what matters is how far the groups are apart next to how far each spreads."""
    groups = [
        (key.rpartition("/")[2].replace("_", " "), s.values.astype(float))
        for key, s in signals.items()
        if not isinstance(s, Matrix)
    ]
    groups = [(key, values) for key, values in groups if len(values) and np.isfinite(values).any()]
    if not groups:
        return replace(base, facts=_facts(result))
    expected = result.answer.get("expected")
    levels = ((float(expected), str(result.answer.get("expected_name", ""))),) if isinstance(expected, int | float) else ()
    unit = {"cached-batch": "seconds a step", "noise-scale": "squared gradient", "precision": "relative error"}
    y_name = unit.get(result.trial, "loss")
    return replace(base, y_name=y_name, groups=tuple(groups), levels=levels, log_y=_wide([v for _, v in groups]))


def _start(base: Picture, result: Result, signals: Signals) -> Picture:
    kinds = ("real_inputs", "zero_inputs", "standardised_inputs")
    values = {k.partition("_")[0] + " inputs": np.array([float(result.answer[k])]) for k in kinds if k in result.answer}
    return replace(_arms(base, result, signals), x_name="", groups=tuple(values.items()), log_y=False)


def _spread(base: Picture, result: Result, signals: Signals) -> Picture:
    """How many measurements lie below each value, and where the answer lies among them."""
    key = next((k for k in ("grad_norm", "null") if k in signals), None)
    if key is None:
        return _plain(base, result, signals)
    values = np.sort(signals[key].values[np.isfinite(signals[key].values)])
    marks: tuple[tuple[float, str], ...] = ()
    name = "gradient norm"
    if key == "null":
        values, name = (values - values.mean()) / (values.std(ddof=1) or 1.0), "agreement, in deviations of shuffled labels"
        marks = ((float(result.answer["z"]), "true labels"),)
    elif "threshold" in result.answer:
        marks = ((float(result.answer["threshold"]), "clip here (p95)"),)
    share = (np.arange(len(values)) + 1) / max(len(values), 1)
    lines = (Line("shuffled labels" if key == "null" else "batches", values, share),)
    return replace(base, x_name=name, y_name="share below", lines=lines, marks=marks)


def _over(x: str, y: str, x_name: str, y_name: str, level: tuple[float, str] | None = None) -> Drawn:
    def draw(base: Picture, result: Result, signals: Signals) -> Picture:
        if x not in signals or y not in signals:
            return _plain(base, result, signals)
        line = Line(y, signals[x].values.astype(float), signals[y].values.astype(float))
        return replace(base, x_name=x_name, y_name=y_name, lines=(line,), levels=(level,) if level else ())

    return draw


def _steps(base: Picture, result: Result, signals: Signals) -> Picture:
    told = result.answer.get("ratios")
    if not isinstance(told, Mapping):
        return replace(base, facts=_facts(result))
    sizes, ratios = np.array([float(k) for k in told]), np.array([float(v) for v in told.values()])
    return replace(
        base, x_name="length of the step", y_name="fall of the loss over the predicted one", log_x=True,
        lines=(Line("ratio", sizes, ratios),), levels=((1.0, "as predicted"),),
    )  # fmt: skip


def _facts(result: Result) -> tuple[tuple[str, str], ...]:
    """The answer as rows: what a trial without a curve has to show."""
    rows = []
    for key, value in result.answer.items():
        if isinstance(value, Mapping):
            rows += [(f"{key} {k}".replace("_", " "), _told(v)) for k, v in value.items()]
        elif key != "code":
            rows.append((key.replace("_", " "), _told(value)))
    return tuple(rows[:10]) or (("result", result.result),)


def _told(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int | float):
        return number(float(value))
    return ", ".join(_told(v) for v in value[:6]) if isinstance(value, list | tuple) and value else str(value or "none")


def _wide(values: Sequence[Floats]) -> bool:
    every = np.concatenate([v[np.isfinite(v)] for v in values]) if len(values) else np.empty(0)
    return bool(len(every)) and float(every.min()) > 0 and float(every.max()) > 50 * float(every.min())


Drawn = Callable[[Picture, Result, Signals], Picture]
DRAWN: dict[str, Drawn] = {
    "lr-range": _sweep, "landscape": _surface, "overfit": _fit, "loss-at-init": _start, "one-step": _steps,
    "clip-threshold": _spread, "label-info": _spread,
    "sharpness": _over("radius", "rise", "distance, as a share of every filter's length", "rise of the loss (median)"),
    "base-eval": _over("alpha", "loss", "from the base (0) to the model (1)", "validation loss"),
    **dict.fromkeys(
        ("fix", "lr-tenth", "clip", "regularisers-off", "lr-scaling", "anneal", "input-baseline", "mode-gap",
         "cached-batch", "noise-scale", "precision"), _arms,
    ),
}  # fmt: skip


def fragment(result: Result) -> str:
    """The picture for a notebook."""
    return svg(picture(result))


def save(result: Result, file: Path) -> None:
    """Write the picture; the ending of the name decides the format: .svg, .html or .png."""
    pictures.save(picture(result), file)
