"""Memory in use grows with every step.

## What it sees

A census of live tensors and of the autograd nodes they keep alive, taken at the same point of the loop. A count that
rises evenly at every one of the last four or more censuses is a leak. Graph nodes are a warning, and so are tensors
that hold a graph, from two censuses on. Plain tensors are a remark unless the accelerator's memory grows with them.
Where the line that creates them is known it is named. Marks left with the loss of a few steps do the same in short
runs: a graph that is alive forty steps later is kept by somebody. Resident memory of the process alone is weak evidence
(the allocator reuses freed memory) and only a remark.

## Why it matters

`total += loss` keeps the graph of every step. The run is fine for hours and then dies, usually at night, far from the
line that causes it.

## What else looks like this

- Optimizer state that is created at the first step: a step, not a slope. The first census is left out.
- PERF003: reserved memory grows while tensors do not: fragmentation.
- A replay buffer that fills up, a cache, longer sequences later on: they rise and then stop.

## What to do

`.item()` or `.detach()` on what you keep; collect numbers, not tensors; delete references to outputs before the next step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import facts, stats
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "PERF002",
    needs={"mem/graph_nodes | mem/graph_tensors | mem/tensors | mem/allocated | mem/rss | fact:memory.growth": 2},
    says={
        "graph": "autograd nodes kept alive grow by {slope:.3g} per step ({low:.0f} to {high:.0f}){line}",
        "kept": "the autograd graphs of {kept:.0f} of {of:.0f} steps were still in memory long after their step{line}",
        "held": "tensors that hold an autograd graph grow by {slope:.3g} per step ({low:.0f} to {high:.0f}){line}",
        "tensors": "the number of tensors in memory grows by {slope:.3g} per step ({low:.0f} to {high:.0f}){line}",
        "bytes": "memory in tensors grows by {slope_mb:.3g} MB per step ({low_mb:.0f} to {high_mb:.0f} MB){line}",
        "process": "the process grew from {low_mb:.0f} to {high_mb:.0f} MB; it is not known whether tensors are the reason",
    },
    fix={
        "": "Call .item() or .detach() on what you collect, so that you keep numbers and not graphs{line}.",
        "process": "Check worker copies, Python lists, figures and loggers. Compare with 20 steps without logging.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("PERF003", "PERF007"),
)
def memory_leak(
    run: Run,
    *,
    least: int = 4,  # CATALOGUE PERF002
    per_step: float = 0.2,  # nodes or tensors; a leak adds at least one every few steps
    growth: float = 1.2,  # bytes: last over first
    process: float = 1.5,
) -> Iterator[Evidence]:
    rows = facts.rows(run, "memory.growth")
    line = "".join(_place(r) for r in rows[:1] if r.get("line"))
    where = tuple(str(r["line"]) for r in rows if r.get("line"))
    nodes = _rising(run.series("mem/graph_nodes"), least)
    if nodes and nodes["slope"] >= per_step:
        yield Evidence({**nodes, "line": line}, where, _steps(run, "mem/graph_nodes"), "graph")
        return
    if rows and facts.number(rows[0].get("of"), 0.0) > 0:
        seen = {"kept": facts.number(rows[0].get("kept")), "of": facts.number(rows[0].get("of")), "line": line}
        yield Evidence(seen, where, run.steps, "kept")
        return
    held = _held(run.series("mem/graph_tensors"), per_step)
    if held:
        yield Evidence({**held, "line": line}, where, _steps(run, "mem/graph_tensors"), "held", None, Confidence.STRONG)
        return
    tensors, allocated = _rising(run.series("mem/tensors"), least), _rising(run.series("mem/allocated"), max(least, 8))
    if allocated and allocated["high"] > growth * allocated["low"]:
        values = {"slope_mb": allocated["slope"] / 1e6, "low_mb": allocated["low"] / 1e6, "high_mb": allocated["high"] / 1e6}
        yield Evidence({**values, "line": line}, where, _steps(run, "mem/allocated"), "bytes", None, Confidence.STRONG)
    elif tensors and tensors["slope"] >= per_step:
        yield Evidence({**tensors, "line": line}, where, _steps(run, "mem/tensors"), "tensors", Severity.INFO)
    elif not len(run.series("mem/graph_nodes")):
        yield from _process(run, process)


def _place(row: Mapping[str, Any]) -> str:
    return f", kept in {row['holder']} at {row['line']}" if row.get("holder") else f", created at {row['line']}"


def _rising(series: Series, least: int) -> dict[str, float]:
    """First, last and slope of a count that rose at every census and evenly so; empty otherwise."""
    seen = series.finite()
    seen = seen.where(
        seen.steps > max(1, int(seen.steps[0]) if len(seen) else 0)
    )  # lazy optimizer state comes with the first step
    if len(seen) > 40:  # many records: block minima ignore what lives within a step
        edges = np.linspace(0, len(seen), 21).astype(int)
        at = [int(seen.steps[a]) for a in edges[:-1]]
        seen = Series(np.array(at), np.array([seen.values[a:b].min() for a, b in itertools.pairwise(edges)]))
    moves = np.diff(seen.values)
    if len(seen) < least or not np.all(moves > 0):
        return {}
    rate = moves / np.maximum(np.diff(seen.steps), 1)
    if rate.min() < 0.1 * rate.mean():  # a leak is even; a buffer that fills up slows down
        return {}
    return {"low": float(seen.values[0]), "high": float(seen.values[-1]), "slope": float(np.median(rate))}


def _held(series: Series, per_step: float, least: int = 50) -> dict[str, float]:
    """First, last and slope of the tensors that hold a graph: nobody keeps those on purpose, so that two censuses do."""
    seen = series.finite()
    seen = seen.where(seen.steps >= 5)
    moves, gaps = np.diff(seen.values), np.diff(seen.steps)
    if len(seen) < 2 or seen.values[-1] - seen.values[0] < least or not np.all(moves >= per_step * np.maximum(gaps, 1)):
        return {}
    slope = float(seen.values[-1] - seen.values[0]) / max(int(seen.steps[-1] - seen.steps[0]), 1)
    return {"low": float(seen.values[0]), "high": float(seen.values[-1]), "slope": slope}


def _process(run: Run, growth: float, least_bytes: float = 5e8) -> Iterator[Evidence]:
    rss = run.series("mem/rss").finite()
    if len(rss) < 8:
        return
    late = rss.values[len(rss) // 4 :]  # loading and the first steps are not a leak
    grew = float(late[-1] - late[0])
    if grew > least_bytes and late[-1] > growth * late[0] and stats.kendall(late) > 0.9:
        values = {"low_mb": float(late[0]) / 1e6, "high_mb": float(late[-1]) / 1e6}
        yield Evidence(values, ("mem/rss",), _steps(run, "mem/rss"), "process", Severity.INFO, Confidence.SUGGESTIVE)


def _steps(run: Run, name: str) -> tuple[int, int]:
    series = run.series(name)
    return int(series.steps[0]), int(series.steps[-1])
