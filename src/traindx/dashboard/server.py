"""The routes of the dashboard. Everything is read-only and answers JSON that carries text as text."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from traindx import ranks, signals
from traindx.dashboard.doctor import Doctor
from traindx.dashboard.explorers import gradient_health, units_alive, weight_shapes
from traindx.dashboard.guard import Guard
from traindx.dashboard.library import Library
from traindx.dashboard.pulses import Pulses
from traindx.diagnosis.compare import compare
from traindx.errors import UsageError
from traindx.report import json as json_
from traindx.report.explore import group
from traindx.report.thinning import blocks, numbers, thin
from traindx.report.vitals import BANDS, SHARES
from traindx.report.words import safe
from traindx.rule import catalogue
from traindx.run import Matrix, Run, Series

PAGE = Path(__file__).parent / "page"
STYLE = Path(__file__).parents[1] / "report" / "style.css"
MOST_POINTS = 4000
MOST_SIGNALS = 60  # in one request
MOST_RANKS = 64  # rows of their table
KEPT_ANSWERS = 256
STATIC = {
    "app.js": "text/javascript",
    "parts.js": "text/javascript",
    "charts.js": "text/javascript",
    "sketch.js": "text/javascript",
    "views.js": "text/javascript",
    "runs.js": "text/javascript",
    "explorers.js": "text/javascript",
    "dashboard.css": "text/css",
}


HERE = ("127.0.0.1", "localhost", "[::1]")


def create_app(
    root: Path,
    token: str,
    hosts: tuple[str, ...] = HERE,
    doctor: Doctor | None = None,
    *,
    port: int = 0,
    renewed: Callable[[str], None] | None = None,
) -> Starlette:
    """The application for the runs below `root`; with a `doctor` of its own process, judging never delays a page.

    With `renewed` the token opens the door once, and the next one is told to it.
    """
    library = Library(root, doctor)
    routes = [
        Route("/", _index),
        Route("/static/plotly.js", _plotly),
        Route("/static/style.css", _style),
        Route("/static/{name}", _static),
        Route("/api/runs", _runs),
        Route("/api/run/{id}", _run),
        Route("/api/run/{id}/signals", _signals),
        Route("/api/run/{id}/live", _live),
        Route("/api/compare/{a}/{b}", _compare),
        Route("/api/explain/{code}", _explain),
        Route("/api/explore/gallery", _gallery),
        Route("/api/explore/gradients", _gradients),
        Route("/api/explore/units", _units),
        Route("/api/explore/weights", _weights),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts, port=port, renewed=renewed)])
    app.state.library, app.state.pulses, app.state.answers = library, Pulses(library), OrderedDict()
    return app


def _library(request: Request) -> Library:
    found: Library = request.app.state.library
    return found


def _json(value: Any, status: int = 200) -> Response:
    return _quick(json_.plain(value), status)


def _quick(value: Any, status: int = 200) -> Response:
    """JSON of what is plain already, in ASCII: a name of a file or run may hold what UTF-8 cannot say."""
    return Response(json.dumps(value, separators=(",", ":")).encode(), status, media_type="application/json")


def _missing(what: str) -> Response:
    return _json({"error": f"there is no {what}"}, 404)


async def _index(request: Request) -> Response:
    return FileResponse(PAGE / "index.html", media_type="text/html; charset=utf-8")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return _missing("such file")
    return FileResponse(PAGE / name, media_type=STATIC[name])


async def _style(request: Request) -> Response:
    return FileResponse(STYLE, media_type="text/css")


@cache
def packed_plotly() -> bytes:
    """The chart library from its wheel, compressed once in a server's life."""
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)


async def _plotly(request: Request) -> Response:
    headers = {"content-encoding": "gzip", "cache-control": "private, max-age=86400"}
    return Response(await run_in_threadpool(packed_plotly), media_type="text/javascript", headers=headers)


async def _runs(request: Request) -> Response:
    """The list, at once; the health of runs nobody has judged yet arrives as it is worked out."""
    library = _library(request)

    def work() -> list[dict[str, Any]]:
        return [
            {
                "id": e.id,
                "name": safe(e.name, 200),
                "kind": e.kind,
                "state": e.state,
                "step": e.step,
                "updated": e.updated,
                "ranks": e.ranks,
                "health": library.health(e),
            }
            for e in library.entries()
        ]

    runs = await run_in_threadpool(work)
    together = await run_in_threadpool(library.together)
    for run in runs:
        run |= {key: value for key, value in together["runs"].get(run["id"], {}).items() if key in ("best", "last", "settings")}
    return _quick({"runs": runs, "metric": safe(together["metric"], 80), "together": [safe(t, 400) for t in together["said"]]})


async def _run(request: Request) -> Response:
    """What a run holds and, once it is known, what is wrong with it: the page does not wait for the judgement."""
    library, run_id = _library(request), request.path_params["id"]
    entry = await run_in_threadpool(library.entry, run_id)
    run = await run_in_threadpool(library.run, run_id)
    if entry is None or run is None:
        return _missing("run of that id")

    def work() -> dict[str, Any]:
        known = library.judgement(entry, first=True)
        listed = [
            {"name": label, "kind": "matrix" if isinstance(s, Matrix) else "series", "records": len(s), "names": len(getattr(s, "names", ())),
             "group": group(n), "meaning": spec.meaning if (spec := signals.spec(n)) else ""}
            for label, n in labels(run.signals).items()
            if len(s := run.signals[n])
        ]  # fmt: skip
        whole: dict[str, Any] = json_.plain({
            "id": run_id, "name": safe(entry.name), "state": entry.state, "steps": run.steps, "signals": listed, "bands": BANDS,
            "about": _about(run), "ranks": _ranks(run), "stories": known.stories if known else [], "report": known.report if known else None, "judged": known is not None,
        })  # fmt: skip
        return whole

    return _quick(await run_in_threadpool(work))


def _ranks(run: Run) -> dict[str, Any] | None:
    """The ranks of a distributed run in rows, and the first of them that parted from the others; None when there is one."""
    rows = ranks.table(run)
    if not rows:
        return None
    shown = [{k: safe(v, 80) if isinstance(v, str) else v for k, v in row.items()} for row in rows[:MOST_RANKS]]
    return {"rows": shown, "all": len(rows), "parting": safe(ranks.parting(run), 240)}


def _about(run: Run) -> dict[str, str]:
    """The few facts people look for first."""
    wanted = {
        "model": "model.class",
        "parameters": "model.params",
        "optimizer": "optimizer.name",
        "device": "device",
        "ranks": "world_size",
    }
    told = {label: run.facts[key] for label, key in wanted.items() if run.facts.get(key) is not None}
    if told.get("ranks") == 1:
        del told["ranks"]
    return {k: safe(f"{v:,}" if isinstance(v, int) else v, 80) for k, v in told.items()}


async def _signals(request: Request) -> Response:
    """Signals between two steps, thinned so that a one-step spike stays visible; one answer serves everybody who asks the same."""
    library, run_id, query = _library(request), request.path_params["id"], request.query_params
    near = library.at_hand(run_id)
    run, version = near if near is not None else await run_in_threadpool(library.newest, run_id)
    shown = labels(run.signals) if run is not None else {}
    names = [n for n in query.getlist("name")[:MOST_SIGNALS] if n in shown]
    if run is None or not names:
        return _missing("such signal")
    try:
        lo, hi = float(query.get("lo", "-inf")), float(query.get("hi", "inf"))
        points = min(MOST_POINTS, max(10, int(query.get("points", "2000"))))
    except ValueError:
        return _json({"error": "lo, hi and points are numbers"}, 400)
    key = (run_id, version, str(request.url.query))
    answers: OrderedDict[Any, asyncio.Future[bytes]] = request.app.state.answers
    if key not in answers:  # the first who asks has it made; the others wait for the same
        work = run_in_threadpool(
            lambda: json.dumps({"signals": [_cut(run, n, shown[n], lo, hi, points) for n in names]}).encode()
        )
        answers[key] = asyncio.ensure_future(work)
        while len(answers) > KEPT_ANSWERS:
            answers.popitem(last=False)
    return Response(await asyncio.shield(answers[key]), media_type="application/json")


def labels(names: Iterable[str]) -> dict[str, str]:
    """What stands for each signal on the page → its name. Long and odd names are cut and cleaned, and stay apart.

    >>> [len(label) for label in labels(["loss/train", "x" * 300])]
    [10, 168]
    """
    out = {}
    for name in sorted(names):
        label = safe(name, 160)
        out[name if label == name else f"{label}#{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:7]}"] = name
    return out


def _cut(run: Run, label: str, name: str, lo: float, hi: float, points: int) -> dict[str, Any]:
    signal = run.signals[name]
    a, b = np.searchsorted(signal.steps, [max(lo, -9e15), min(hi, 9e15)])
    b += int(np.count_nonzero(signal.steps[b : b + 1] == hi))
    if isinstance(signal, Series):
        steps, values = thin(signal.steps[a:b], signal.values[a:b], points)
        return {"name": label, "kind": "line", "x": steps.tolist(), "y": numbers(values), "records": int(b - a)}
    part = Matrix(signal.steps[a:b], signal.names, signal.values[a:b])
    if not len(part):
        return {"name": label, "kind": "heat", "x": [], "y": [], "z": [], "records": 0}
    names, table, at = blocks(part, 80, 300)
    rows = [numbers(r) for r in table]
    plain = name in SHARES or bool(np.any(table <= 0))
    return {
        "name": label,
        "kind": "heat",
        "log": not plain,
        "x": at.tolist(),
        "y": [safe(n, 120) for n in names],
        "z": rows,
        "records": int(b - a),
    }


async def _live(request: Request) -> Response:
    """Server-sent events: a line whenever the run has grown or was judged anew, a heartbeat otherwise."""
    run_id = request.path_params["id"]
    if await run_in_threadpool(_library(request).entry, run_id) is None:
        return _missing("run of that id")
    pulses: Pulses = request.app.state.pulses

    async def lines() -> AsyncIterator[str]:
        async with contextlib.aclosing(pulses.of(run_id)) as beats:
            async for line in beats:
                yield line

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _compare(request: Request) -> Response:
    library = _library(request)
    a = await run_in_threadpool(library.run, request.path_params["a"])
    b = await run_in_threadpool(library.run, request.path_params["b"])
    if a is None or b is None:
        return _missing("run of that id")
    found = await run_in_threadpool(compare, a, b)
    parted = [vars(s) for s in found.separations if s.first_difference is not None][:40]
    return _json({"outcome": found.outcome, "summary": found.summary, "same_start": found.same_start, "configuration": found.configuration,
                  "environment": found.environment, "separations": parted, "warnings": found.warnings})  # fmt: skip


async def _explain(request: Request) -> Response:
    found = catalogue().get(request.path_params["code"].upper())
    if found is None:
        return _missing("condition of that code")
    return _json({"code": found.code, "name": found.name, "page": found.page, "severity": found.severity.value})


def _numbers_of(request: Request, **defaults: float) -> dict[str, float]:
    out = {}
    for key, default in defaults.items():
        text = request.query_params.get(key, str(default))
        try:
            out[key] = float(text)
        except ValueError:
            raise UsageError(f"{key} is a number; got '{text}'") from None
        if not np.isfinite(out[key]):
            raise UsageError(f"{key} is a number; got '{text}'")
    return out


async def _gallery(request: Request) -> Response:
    return FileResponse(PAGE / "gallery.json", media_type="application/json")


async def _explored(make: Callable[[], dict[str, Any]]) -> Response:
    """What an explorer computes; what it does not know is refused, never answered with something else."""
    try:
        return _json(await run_in_threadpool(make))
    except UsageError as why:
        return _json({"error": str(why)}, 400)


async def _gradients(request: Request) -> Response:
    q = request.query_params

    def made() -> dict[str, Any]:
        n = _numbers_of(request, depth=20, width=128)
        skip = q.get("residual", "no")
        if skip not in ("no", "yes"):
            raise UsageError(f"residual is yes or no; got '{skip}'")
        named = (q.get("activation", "relu"), q.get("init", "he"))
        return gradient_health(*named, int(n["depth"]), int(n["width"]), q.get("norm", "none"), skip == "yes")

    return await _explored(made)


async def _units(request: Request) -> Response:
    def made() -> dict[str, Any]:
        n = _numbers_of(request, lr=0.1, bias=0.0, depth=6, width=64)
        return units_alive(n["lr"], n["bias"], int(n["depth"]), int(n["width"]))

    return await _explored(made)


async def _weights(request: Request) -> Response:
    return _json(weight_shapes())
