"""What was measured, as still pictures by chapter: they work without scripts, in a mail and on paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from traindx import ranks
from traindx.diagnosis import Diagnosis
from traindx.report import charts, errors, maps, profile, vitals
from traindx.report.narrative import text
from traindx.report.words import number, safe
from traindx.run import Matrix, Run

Pictures = Iterator[str]
MOST_LAYERS = 3  # small multiples of weights
MOST_RANKS = 4  # lines a rank chart can tell apart


def chapters(d: Diagnosis) -> str:
    """Loss and metrics, gradients, updates, activations, weights, data and evaluation, time, memory, ranks, landscape."""
    bad = tuple(dict.fromkeys(w for f in d.findings if f.severity.value != "info" for w in f.where))[:12]
    made: list[tuple[str, Callable[[], Pictures]]] = [
        ("Metrics and learning rate", lambda: _metrics(d.run)),
        ("Gradients", lambda: _gradients(d.run, bad)),
        ("Updates", lambda: _updates(d.run, bad)),
        ("Activations", lambda: _activations(d.run, bad)),
        ("Weights", lambda: _weights(d.run, bad)),
        ("Data and evaluation", lambda: _data(d.run)),
        ("Time", lambda: _time(d.run)),
        ("Memory", lambda: _memory(d.run)),
        ("Ranks", lambda: _ranks(d.run)),
        ("Loss landscape", lambda: landscape(d.run)),
    ]
    out = ""
    for title, make in made:
        parts = [p for p in make() if p]
        if parts:
            out += f'<section class="chapter"><h3>{title}</h3><div class="pictures">{"".join(parts)}</div></section>'
    return f"<h2>What was measured</h2>{out}" if out else ""


def _line(
    run: Run, name: str, title: str, *, height: int = 170, band: tuple[float, float] | None = None, log: bool | None = None
) -> str:
    series = run.series(name)
    return (
        charts.line_chart([charts.trace(title, series)], title=title, height=height, band=band, log=log)
        if len(series) > 1
        else ""
    )


def _pair(run: Run, names: Mapping[str, str], title: str, log: bool | None = None, height: int = 170) -> str:
    found = [(label, run.series(name)) for label, name in names.items() if len(run.series(name)) > 1]
    traces = [charts.trace(label, s, kind) for (label, s), kind in zip(found, "abcd", strict=False)]
    return charts.line_chart(traces, title=title, height=height, log=log)


def _metrics(run: Run) -> Pictures:
    yield _line(run, "lr", "learning rate")
    yield _pair(run, {"training": "accuracy/train", "validation": "accuracy/val"}, "accuracy")
    others = [n for n in run.signals if n.startswith("metric/") and len(run.series(n)) > 1]
    for name in others[:6]:
        yield _line(run, name, safe(name, 80))


def _gradients(run: Run, bad: tuple[str, ...]) -> Pictures:
    norm, limit = run.series("grad_norm"), run.series("clip/threshold")
    traces = [charts.trace("gradient norm", norm), charts.trace("clip limit", limit, "muted")]
    if len(norm) > 1:
        yield charts.line_chart(traces, title="gradient norm", height=170)
    yield _line(run, "grad_cosine", "cosine with the previous gradient")
    yield maps.heat_map(run.matrix("grad_norm/param"), title="gradient flow: layer × step", bad=bad, note="input on top")


def _updates(run: Run, bad: tuple[str, ...]) -> Pictures:
    matrix = run.matrix("update_ratio/param")
    if len(matrix) < 2:
        yield _line(run, "update_ratio", "update size relative to the weights", band=vitals.BANDS["update_ratio"])
        return
    middle = charts.Trace("median layer", matrix.steps, _middle(matrix))
    named = [n for n in bad if n in matrix.names][:2]
    traces = [middle, *(charts.trace(n, matrix.column(n), k) for n, k in zip(named, "bc", strict=False))]
    spread = charts.Spread(matrix.steps, *vitals.envelope(matrix), "muted")
    yield charts.line_chart(
        traces,
        title="update / weight",
        height=200,
        band=vitals.BANDS["update_ratio"],
        spreads=[spread],
        note="grey: smallest to largest layer",
    )
    yield maps.heat_map(matrix, title="update / weight: layer × step", bad=bad)


def _middle(matrix: Matrix) -> Any:
    known = np.where(np.isfinite(matrix.values), matrix.values, np.nan)
    out = np.full(len(matrix), np.nan)
    seen = np.isfinite(known).any(axis=1)
    out[seen] = np.nanmedian(known[seen], axis=1)
    return out


def _activations(run: Run, bad: tuple[str, ...]) -> Pictures:
    yield maps.heat_map(run.matrix("act_rms/module"), title="activation scale (RMS): layer × step", bad=bad)
    dead = run.matrix("dead_fraction/module")
    if len(dead) > 1 and len(dead.names) <= 4:
        traces = [charts.trace(n, dead.column(n), k) for n, k in zip(dead.names, "abcd", strict=False)]
        yield charts.line_chart(traces, title="dead units", band=vitals.BANDS["dead_fraction/module"], height=170)
    else:
        yield maps.heat_map(dead, title="dead units: layer × step", log=False, bad=bad)
    yield maps.heat_map(run.matrix("act_saturated/module"), title="saturated units: layer × step", log=False, bad=bad)


def _weights(run: Run, bad: tuple[str, ...]) -> Pictures:
    yield _line(run, "weight_norm", "norm of all weights")
    middle = run.matrix("weight_q50/param")
    tables = {q: run.matrix(f"weight_q{q:02d}/param") for q in (5, 25, 75, 95)}
    if len(middle) < 2 or any(t.names != middle.names or len(t) != len(middle) for t in tables.values()):
        return
    named = [n for n in bad if n in middle.names]
    matrices = [n for n in middle.names if n.endswith("weight")] or list(middle.names)
    ends = [matrices[int(i)] for i in np.linspace(0, len(matrices) - 1, min(MOST_LAYERS, len(matrices)))]
    for name in dict.fromkeys([*named, *ends][:MOST_LAYERS]):
        column = {q: t.column(name).values for q, t in tables.items()}
        spreads = [charts.Spread(middle.steps, column[5], column[95]), charts.Spread(middle.steps, column[25], column[75])]
        yield charts.line_chart(
            [charts.trace("median", middle.column(name))],
            title=f"weights of {name}",
            spreads=spreads,
            height=170,
            log=False,
            note="quantiles 5–95 % and 25–75 %",
        )


def _data(run: Run) -> Pictures:
    counts = run.fact("data.class_counts")
    if isinstance(counts, Mapping) and 1 < len(counts) <= 40:
        yield maps.bars([f"class {k}" for k in counts], [_float(v) for v in counts.values()], title="training targets by class")
    yield from errors.tables(run)
    yield _table(run.fact("data.bad_samples"), "samples that look wrong", ("step", "field", "kind", "samples", "indexes"))
    slopes = run.matrix("eval/recall/class")
    if len(slopes) > 1:
        yield maps.heat_map(slopes, title="recall: class × step", log=False)


def _table(rows: Any, title: str, columns: Sequence[str]) -> str:
    """A list of records as a table, whatever they hold, as text."""
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows or not all(isinstance(r, Mapping) for r in rows):
        return ""
    names = [c for c in columns if any(c in r for r in rows)] or list(dict.fromkeys(str(k) for r in rows for k in r))[:10]
    head = "".join(f"<th>{text(n.replace('_', ' '), 40)}</th>" for n in names)
    body = "".join(f"<tr>{''.join(f'<td>{_value(r.get(n))}</td>' for n in names)}</tr>" for r in rows[:20])
    return f'<figure class="chart"><figcaption><b>{title}</b></figcaption><div class="scroll"><table><tr>{head}</tr>{body}</table></div></figure>'


def _value(value: Any) -> str:
    return number(float(value)) if isinstance(value, float) else "" if value is None else text(value, 120)


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _time(run: Run) -> Pictures:
    yield maps.waterfall(vitals.phases(run), title="one step, from data to update", note="means over the run")
    yield _line(run, "time/step", "seconds per step", height=150)
    table = run.fact("perf.profile")
    top = table.get("top") if isinstance(table, Mapping) else None
    if isinstance(top, Sequence) and top and all(isinstance(t, Mapping) for t in top):
        yield maps.bars(
            [str(t.get("op")) for t in top], [_float(t.get("share")) for t in top], title="operations by time", share=True
        )
    if told := profile.sentences(run):
        yield f'<figure class="chart"><figcaption><b>what limits a step</b></figcaption><p>{text(" ".join(told))}</p></figure>'


def _memory(run: Run) -> Pictures:
    for name, title in (
        ("mem/rss", "memory of the process"),
        ("mem/allocated", "accelerator memory in tensors"),
        ("mem/peak", "peak accelerator memory"),
    ):
        series = run.series(name)
        if len(series) > 1:
            mega = charts.Trace(title, series.steps, series.values / 2**20)
            yield charts.line_chart([mega], title=f"{title} (MiB)", height=150)
    yield _line(run, "mem/graph_nodes", "autograd nodes kept alive", height=150)
    yield _table(run.fact("memory.growth"), "what grows", ("line", "kind", "per_step", "holder"))


RANK_SIGNALS = (
    ("rank/loss", "loss by rank"),
    ("rank/grad_norm", "gradient norm by rank"),
    ("rank/step_time", "own seconds per step by rank"),
)


def _ranks(run: Run) -> Pictures:
    """Each rank next to the others: few as lines, many as a map; and their means and spreads in a table."""
    for name, title in RANK_SIGNALS:
        matrix = run.matrix(name)
        if len(matrix) < 2 or len(matrix.names) < 2:
            continue
        if len(matrix.names) <= MOST_RANKS:
            traces = [charts.trace(ranks.label(n), matrix.column(n), k) for n, k in zip(matrix.names, "abcd", strict=False)]
            yield charts.line_chart(traces, title=title, height=170)
        else:
            yield maps.heat_map(matrix, title=title, log=False)
    yield _rank_table(run)


def _rank_table(run: Run) -> str:
    """Mean and spread of each rank, and who was the first to part from the others."""
    rows = ranks.table(run)
    more = f" (20 of {len(rows)})" if len(rows) > 20 else ""
    return (
        _table(rows, f"ranks side by side, level ± spread{more}: {text(ranks.parting(run), 240)}", tuple(rows[0]))
        if rows
        else ""
    )


def landscape(run: Run) -> Pictures:
    """The loss around the weights, from a landscape trial: a line in one direction, a map in two."""
    grid = section(run)
    if grid is None:
        return
    axis, loss = grid
    if len(loss) > 1:
        rows = Matrix(np.arange(len(axis)), tuple(f"{v:+.2f}" for v in axis[::-1]), loss[::-1].T)
        positive = bool((loss[np.isfinite(loss)] > 0).all())
        yield maps.heat_map(
            rows, title="loss around the weights", log=positive, rows=60, note="two filter-normalised random directions"
        )
    line = charts.Trace("loss", np.round(axis * 100).astype(np.int64), loss[len(loss) // 2])
    note = "percent of the weights' own norm; 0 is the current point"
    yield charts.line_chart([line], title="loss along one direction", note=note, height=190)


def section(run: Run) -> tuple[Any, Any] | None:
    """The axis and the loss (rows, axis) of a landscape trial; None when there is none or it cannot be read."""
    matrix = run.matrix("trial/landscape")
    try:
        axis = np.array([float(n) for n in matrix.names])
    except ValueError:
        return None
    fits = len(matrix) in (1, len(axis)) and len(axis) > 2
    return (axis, matrix.values) if fits else None
