"""Every reader of what others wrote, with inputs that it knows: for `fuzz.py`."""

# ruff: noqa: E501 - rows of a table are easier to compare when they are not broken

from __future__ import annotations

import asyncio
import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from clinic import store
from tests.importers import writers

from attacks.fuzz import Reader
from attacks.mutations import Files
from record.records import a_record
from traindx import api, importers, mcp, ranks, settings
from traindx.dashboard.connections import Connection
from traindx.dashboard.server import create_app
from traindx.diagnosis import diagnose
from traindx.errors import TraindxError
from traindx.finding import Status
from traindx.forensics import capsule
from traindx.live import stop
from traindx.record import Writer, bundle, diary, flight, follow, is_record, list_records, read, sources
from traindx.report import html, junit, markdown, sarif, text
from traindx.report import json as json_
from traindx.run import Event, Run


class RuleFailed(Exception):
    """A rule that a fact has broken: it costs only itself, and is a bug."""


FEW = {"STEPS": np.arange(24), "EVERY": 6, "PER_EPOCH": 8}
LOG = b"step,loss,val_loss,lr\n" + b"".join(b"%d,%f,%f,0.1\n" % (i, 2 / (i + 1), 2.1 / (i + 1)) for i in range(24))


def taken(folder: Path) -> Files:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def written(make: Callable[[Path], Any]) -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        return [taken(Path(folder))]


def _shown(run: Run) -> None:
    """Judge it and show the judgement in every form; no rule may fail."""
    judged = diagnose(run)
    if failed := judged.with_status(Status.BROKEN):
        raise RuleFailed(failed[0].code, failed[0].reason.strip().splitlines()[-1])
    text.plain(judged)
    for form in (json_.render, junit.render, markdown.render, sarif.render):
        form([judged])
    html.render([judged])


# -- logs of every format


def _few(make: Callable[[Path], Any], folder: Path) -> None:
    """A log of a known run with few steps."""
    steps = FEW["STEPS"]
    at = steps[FEW["EVERY"] - 1 :: FEW["EVERY"]]
    own = {
        **FEW, "TRAIN": writers.TRAIN[: len(steps)], "LR": writers.LR[: len(steps)], "NORM": writers.NORM[: len(steps)],
        "VAL_AT": at, "VAL": writers.VAL[: len(at)],
    }  # fmt: skip
    before = {name: getattr(writers, name) for name in own}
    try:
        for name, value in own.items():
            setattr(writers, name, value)
        make(folder)
    finally:
        for name, value in before.items():
            setattr(writers, name, value)


def _log(folder: Path) -> None:
    """As a folder, and each of its files as if you had named it."""
    api.load(folder)
    for path in sorted(p for p in folder.rglob("*") if p.is_file())[:4]:
        try:
            importers.read(path)
        except TraindxError:
            continue


IMPORTED = [name for name in writers.FORMATS if not name.startswith(("python", "pandas"))]


def _notebook() -> list[Files]:
    cell = {
        "cell_type": "code",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": [f"step {i} loss {2 / (i + 1):.4f}\n" for i in range(20)]}
        ],
    }
    return [{"a.ipynb": json.dumps({"cells": [cell], "nbformat": 4}).encode()}]


def _beside() -> list[Files]:
    """A log with settings beside it."""
    config = b"lr: 0.1\nepochs: 3\nmodel: {name: x, hidden: [1, 2]}\nseed: !!int 3\nx: &a [1]\ny: *a\n"
    return [
        {"a.csv": LOG, "config.yaml": config},
        {"a.csv": LOG, "hparams.yaml": config, "a.json": b'{"lr": 0.1, "epochs": 3}'},
    ]


# -- records


def _record(folder: Path) -> None:
    place = folder / "run"
    list_records(folder)
    if is_record(place):
        run = follow(place).run
        diary.entries(place)
        sources.kept(place)
        ranks.table(run)
    api.load(place)


def _records() -> list[Files]:
    def two(folder: Path) -> None:
        a_record(folder / "run")
        a_record(folder / "run", rank=1)
        (folder / "run" / "launch-1.json").write_text(json.dumps({"failures": [{"rank": 1, "exitcode": 1, "time": 5}]}))
        (folder / "run" / "sources.json").write_text(json.dumps({"a.py:3": "x = 1"}))

    return written(lambda folder: a_record(folder / "run")) + written(two)


def _diary(folder: Path) -> None:
    for entry in diary.entries(folder / "a.csv"):
        diary.told(entry)
    stop.ordered(folder)
    sources.kept(folder)


def _diaries() -> list[Files]:
    lines = [
        {"time": 1.0, "kind": kind, "text": "x", "trial": "lr-range", "result": "ok", "verdict": "v"} for kind in diary.KINDS
    ]
    told = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return [
        {"a.csv": LOG, "a.csv.traindx-diary": told, "stop.json": b'{"step": 3, "why": "x"}', "sources.json": b'{"a.py:3": "x"}'}
    ]


def _entry(n: int, **said: Any) -> dict[str, Any]:
    frames = [{"filename": "train.py", "line": 3, "name": "f"}]
    return {
        "process_group": ["0", "x"], "collective_seq_id": n, "profiling_name": "nccl:all_reduce", "input_sizes": [[2, 3]],
        "state": "completed", "retired": True, "frames": frames, "is_p2p": False, **said,
    }  # fmt: skip


def _flights() -> list[Files]:
    dump = {"entries": [_entry(n) for n in range(3)], "version": "2.5"}
    other = {"entries": [_entry(1), _entry(2, profiling_name="nccl:broadcast", retired=False, state="scheduled")]}
    as_json = {f"trace_rank_{i}": json.dumps(d).encode() for i, d in enumerate((dump, other))}
    return [as_json, *({f"trace_rank_{i}": pickle.dumps(d, p) for i, d in enumerate((dump, other))} for p in (2, 3, 4))]


def _flight(folder: Path) -> None:
    found, _ = flight.beside(folder, {0: Run(), 1: Run()})
    flight.compared(found)


def _capsules() -> list[Files]:
    import torch

    model, optimizer = torch.nn.Linear(2, 1), None
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = {"models": [model.state_dict()], "optimizers": [optimizer.state_dict()], "lr": 0.1, "rng": [1, (2, 3), {"a": None}]}

    def make(folder: Path) -> None:
        made = capsule.save(
            capsule.Capsule(3, state, {"x": torch.ones(2)}, {"command": ["train.py"]}, [[1, {"loss": 1.0}]]), folder
        )
        for path in made.iterdir():
            path.rename(folder / path.name)
        made.rmdir()

    return written(make)


# -- what is said of runs: facts and events of every type


@cache
def _stored() -> list[tuple[str, Run]]:
    return [(p.stem, store.load(p)) for p in sorted(store.RUNS.glob("*.npz"))[::5]]


def _facts() -> list[Files]:
    """Facts and events of stored runs; the curves are those of the run."""
    return [
        {"run": name.encode(), "facts": json.dumps(json_.plain(dict(run.facts))).encode(),
         "events": json.dumps([[e.step, e.kind, json_.plain(dict(e.data)), e.time] for e in run.events][:60]).encode()}
        for name, run in _stored()
    ]  # fmt: skip


def _fact(folder: Path) -> None:
    """As a record tells them: written into one, and read again."""
    known = dict(_stored())
    told = {name: (folder / name).read_bytes() if (folder / name).exists() else b"" for name in ("run", "facts", "events")}
    run = known.get(told["run"].decode("latin-1"), _stored()[0][1])
    try:
        facts, events = json.loads(told["facts"] or b"{}"), json.loads(told["events"] or b"[]")
    except (ValueError, RecursionError):
        return
    writer = Writer(folder / "record", say=lambda _: None)
    for key, value in facts.items() if isinstance(facts, dict) else ():
        writer.fact(key, value)
    for one in events if isinstance(events, list) else ():
        if isinstance(one, list) and len(one) == 4 and isinstance(one[2], dict):
            try:
                writer.event(Event(*one))
            except (TypeError, ValueError, OverflowError):
                continue
    writer.write(1, {"loss/train": 1.0})
    writer.close()
    again = read(folder / "record")
    _shown(replace(run, facts=again.facts, events=again.events))


# -- settings, HTTP, MCP


def _setting(folder: Path) -> None:
    settings.load(folder)


def _settings() -> list[Files]:
    mine = b'ignore = ["PERF"]\nfail-on = "warning"\nbudget = 0.5\nlive = false\n[rules.GRAD002]\nlimit = 20.0\n'
    return [
        {"traindx.toml": mine},
        {"pyproject.toml": b"[tool.other]\nx = 1\n[tool.traindx]\n" + mine.replace(b"[rules", b"[tool.traindx.rules")},
    ]


class _Wire(asyncio.Transport):
    """A connection nobody is at the other end of."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.open = b"", True

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.sent += bytes(data)

    def close(self) -> None:
        self.open = False

    abort = close

    def is_closing(self) -> bool:
        return not self.open

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 7007) if name in ("peername", "sockname") else default

    def set_protocol(self, protocol: Any) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


@cache
def _served() -> uvicorn.Config:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-served-"))
    a_record(folder / "run")
    config = uvicorn.Config(
        create_app(folder, "key", port=7007),
        http=Connection,
        ws="none",
        log_level="critical",
        h11_max_incomplete_event_size=16_384,
    )
    config.load()
    return config


def _http(folder: Path) -> None:
    """Raw bytes on a connection of the dashboard: no answer of 500 and more."""
    from uvicorn.server import ServerState

    said = (folder / "request").read_bytes() if (folder / "request").exists() else b""

    async def talk() -> bytes:
        state, wire = ServerState(), _Wire()
        link = Connection(_served(), state, {})
        link.connection_made(wire)
        try:
            link.data_received(said)
            link.eof_received()
            while state.tasks:
                done, _ = await asyncio.wait(set(state.tasks), timeout=0.5 if b"/live" in said else 60.0)
                if not done:  # the stream of a live run has no end
                    for task in list(state.tasks):
                        task.cancel()
        finally:
            link.connection_lost(None)
        return wire.sent

    answered = asyncio.run(talk())
    assert not any(line.split(b" ")[1:2] >= [b"500"] for line in answered.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")), (
        answered[:300]
    )


def _requests() -> list[Files]:
    heads = [
        "GET /?token=key HTTP/1.1\r\nHost: localhost:7007\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: traindx_7007=key\r\n\r\n",
        *(
            f"GET {path} HTTP/1.1\r\nHost: localhost:7007\r\nAuthorization: Bearer key\r\nOrigin: http://localhost:7007\r\n\r\n"
            for path in (
                "/api/runs", "/api/run/x", "/api/run/x/signals?name=loss/train&lo=0&hi=9&points=50", "/api/compare/x/y", "/static/app.js",
                "/api/explain/GRAD001", "/api/explore/gradients?depth=4&width=8&activation=relu&init=he&norm=none&residual=yes",
                "/api/explore/units?lr=0.1&bias=0&depth=3&width=8", "/static/../../x", "/api/run/x/live",
            )
        ),
        "POST /api/runs HTTP/1.1\r\nHost: localhost:7007\r\nContent-Length: 3\r\nSec-Fetch-Site: cross-site\r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: [::1]:7007\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ]  # fmt: skip
    return [{"request": head.encode()} for head in heads]


def _asked(folder: Path) -> None:
    """Questions of an agent: JSON of a tool and its words."""
    desk = mcp.Desk(folder)
    try:
        tool, words = json.loads((folder / "ask").read_bytes())
        words = {str(k): str(v) for k, v in words.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return
    known = {"list_runs": (), "diagnose": ("run",), "explain": ("code",), "series": ("run", "signal"), "compare": ("a", "b")}
    if str(tool) in known:
        getattr(desk, str(tool))(*(words.get(w, "") for w in known[str(tool)]))


def _questions() -> list[Files]:
    asks = [
        ["list_runs", {}], ["diagnose", {"run": "a.csv"}], ["explain", {"code": "GRAD001"}],
        ["series", {"run": "a.csv", "signal": "loss/train"}], ["compare", {"a": "a.csv", "b": "a.csv"}],
    ]  # fmt: skip
    return [{"a.csv": LOG, "ask": json.dumps(ask).encode()} for ask in asks]


def _bundles() -> list[Files]:
    def make(folder: Path) -> None:
        a_record(folder / "run")
        bundle.pack(folder / "run", folder / "a.zip", lambda name, text: text)

    return [{"a.zip": files["a.zip"]} for files in written(make)]


def _bundle(folder: Path) -> None:
    if bundle.is_bundle(folder / "a.zip"):
        bundle.read(folder / "a.zip")


READERS: list[Reader] = [
    Reader("bundle", _bundle, _bundles),
    Reader("record", _record, _records),
    Reader("capsule", capsule.load, _capsules),
    Reader("diary", _diary, _diaries),
    Reader("flight", _flight, _flights),
    Reader("facts", _fact, _facts),
    Reader("settings", _setting, _settings),
    Reader("http", _http, _requests),
    Reader("mcp", _asked, _questions),
    Reader("notebook", _log, _notebook),
    Reader("beside-a-log", _log, _beside),
    *(Reader(name, _log, partial(written, partial(_few, writers.FORMATS[name]))) for name in IMPORTED),
]
