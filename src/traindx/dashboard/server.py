"""The routes of the dashboard. Everything is read-only and answers JSON that carries text as text."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from traindx import signals
from traindx.dashboard.explorers import gradient_health, units_alive, weight_shapes
from traindx.dashboard.guard import Guard
from traindx.dashboard.library import Library
from traindx.diagnosis.compare import compare
from traindx.report import json as json_
from traindx.report.thinning import blocks, numbers, thin
from traindx.report.words import safe
from traindx.rule import catalogue
from traindx.run import Matrix, Series

PAGE = Path(__file__).parent / "page"
STYLE = Path(__file__).parents[1] / "report" / "style.css"
MOST_POINTS = 4000
STATIC = {
    "app.js": "text/javascript",
    "charts.js": "text/javascript",
    "views.js": "text/javascript",
    "dashboard.css": "text/css",
}


def create_app(root: Path, token: str, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")) -> Starlette:
    """The application for the runs below `root`."""
    library = Library(root)
    routes = [
        Route("/", _index),
        Route("/static/plotly.js", _plotly),
        Route("/static/style.css", _style),
        Route("/static/{name}", _static),
        Route("/api/runs", _runs),
        Route("/api/run/{id}", _run),
        Route("/api/run/{id}/signal", _signal),
        Route("/api/run/{id}/live", _live),
        Route("/api/compare/{a}/{b}", _compare),
        Route("/api/explain/{code}", _explain),
        Route("/api/explore/gradients", _gradients),
        Route("/api/explore/units", _units),
        Route("/api/explore/weights", _weights),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts)])
    app.state.library = library
    return app


def _library(request: Request) -> Library:
    found: Library = request.app.state.library
    return found


def _json(value: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(json_.plain(value), status)


def _missing(what: str) -> JSONResponse:
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
def _packed_plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)


async def _plotly(request: Request) -> Response:
    headers = {"content-encoding": "gzip", "cache-control": "private, max-age=86400"}
    return Response(_packed_plotly(), media_type="text/javascript", headers=headers)


async def _runs(request: Request) -> Response:
    """The list; the health of runs nobody has looked at yet is worked out a few per request, so the list itself is quick."""
    library = _library(request)

    def work() -> list[dict[str, Any]]:
        entries = library.entries()
        fresh = 0
        rows = []
        for e in entries:
            health = library.known_health(e)
            if health is None and fresh < int(request.query_params.get("judge", "0") or 0):
                health, fresh = library.health(e), fresh + 1
            rows.append(
                {
                    "id": e.id,
                    "name": safe(e.name, 200),
                    "kind": e.kind,
                    "state": e.state,
                    "step": e.step,
                    "updated": e.updated,
                    "health": health,
                }
            )
        return rows

    return _json({"runs": await run_in_threadpool(work)})


async def _run(request: Request) -> Response:
    library, run_id = _library(request), request.path_params["id"]
    diagnosis = await run_in_threadpool(library.diagnosis, run_id)
    if diagnosis is None:
        return _missing("run of that id")
    run = diagnosis.run
    listed = [
        {"name": safe(n, 200), "kind": "matrix" if isinstance(s, Matrix) else "series", "records": len(s), "names": len(getattr(s, "names", ())),
         "meaning": spec.meaning if (spec := signals.spec(n)) else ""}
        for n, s in sorted(run.signals.items())
        if len(s)
    ]  # fmt: skip
    entry = library.entry(run_id)
    stories = [
        {"root": s.root.code, "more": len(s.more), "explains": [f.code for f in s.consequences]} for s in diagnosis.stories
    ]
    return _json(
        {
            "id": run_id,
            "name": safe(entry.name if entry else ""),
            "state": entry.state if entry else "",
            "signals": listed,
            "stories": stories,
            "report": json_.report(diagnosis),
        }
    )


async def _signal(request: Request) -> Response:
    """One signal between two steps, thinned so that a one-step spike stays visible."""
    run = await run_in_threadpool(_library(request).run, request.path_params["id"])
    name = request.query_params.get("name", "")
    if run is None or name not in run.signals:
        return _missing("such signal")
    try:
        lo, hi = float(request.query_params.get("lo", "-inf")), float(request.query_params.get("hi", "inf"))
        points = min(MOST_POINTS, max(10, int(request.query_params.get("points", "2000"))))
    except ValueError:
        return _json({"error": "lo, hi and points are numbers"}, 400)

    def work() -> dict[str, Any]:
        signal = run.signals[name].between(lo, hi)
        if isinstance(signal, Series):
            steps, values = thin(signal.steps, signal.values, points)
            return {"name": safe(name), "kind": "line", "x": steps.tolist(), "y": numbers(values), "records": len(signal)}
        if not len(signal):
            return {"name": safe(name), "kind": "heat", "x": [], "y": [], "z": [], "records": 0}
        names, table, at = blocks(signal, 80, 300)
        return {
            "name": safe(name),
            "kind": "heat",
            "x": at.tolist(),
            "y": [safe(n, 120) for n in names],
            "z": [numbers(r) for r in table],
            "records": len(signal),
        }

    return _json(await run_in_threadpool(work))


async def _live(request: Request) -> Response:
    """Server-sent events: a line whenever the run has grown, a heartbeat otherwise."""
    library, run_id = _library(request), request.path_params["id"]
    if library.entry(run_id) is None:
        return _missing("run of that id")

    async def lines() -> AsyncIterator[str]:
        last: tuple[Any, ...] | None = None
        while not await request.is_disconnected():
            d = await run_in_threadpool(library.diagnosis, run_id)
            entry = library.entry(run_id)
            if d is not None:
                now = (d.run.steps, d.verdict, tuple(f.code for f in d.findings))
                if now != last:
                    last = now
                    data = {
                        "steps": d.run.steps,
                        "verdict": d.verdict,
                        "summary": d.summary,
                        "findings": [f.code for f in d.findings],
                        "state": entry.state if entry else "",
                    }
                    yield f"data: {json.dumps(json_.plain(data))}\n\n"
                else:
                    yield ": still here\n\n"
            await asyncio.sleep(1.0)

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _compare(request: Request) -> Response:
    library = _library(request)
    a = await run_in_threadpool(library.run, request.path_params["a"])
    b = await run_in_threadpool(library.run, request.path_params["b"])
    if a is None or b is None:
        return _missing("run of that id")
    found = await run_in_threadpool(compare, a, b)
    parted = [vars(s) for s in found.separations if s.first_difference is not None][:40]
    return _json({"outcome": found.outcome, "judged_by": found.judged_by, "same_start": found.same_start, "configuration": found.configuration,
                  "environment": found.environment, "separations": parted, "warnings": found.warnings})  # fmt: skip


async def _explain(request: Request) -> Response:
    found = catalogue().get(request.path_params["code"].upper())
    if found is None:
        return _missing("condition of that code")
    return _json({"code": found.code, "name": found.name, "page": found.page, "severity": found.severity.value})


def _numbers_of(request: Request, **defaults: float) -> dict[str, float]:
    out = {}
    for key, default in defaults.items():
        try:
            value = float(request.query_params.get(key, default))
        except ValueError:
            value = default
        out[key] = value if np.isfinite(value) else default
    return out


async def _gradients(request: Request) -> Response:
    q = request.query_params
    n = _numbers_of(request, depth=20, width=128)
    return _json(await run_in_threadpool(lambda: gradient_health(
        q.get("activation", "relu"), q.get("init", "he"), int(n["depth"]), int(n["width"]), q.get("norm", "none"), q.get("residual", "no") == "yes"
    )))  # fmt: skip


async def _units(request: Request) -> Response:
    n = _numbers_of(request, lr=0.1, bias=0.0, depth=6, width=64)
    return _json(await run_in_threadpool(lambda: units_alive(n["lr"], n["bias"], int(n["depth"]), int(n["width"]))))


async def _weights(request: Request) -> Response:
    return _json(weight_shapes())
