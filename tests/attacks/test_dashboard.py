"""What others may do to the dashboard (S10–S12, S15, S16, S19, S22)."""

from __future__ import annotations

import http.client
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from runs import learning
from traindx.dashboard import doctor as doctor_
from traindx.dashboard.doctor import Doctor
from traindx.dashboard.library import Library
from traindx.dashboard.server import create_app
from traindx.record import Writer

LONG = "metric/" + "very long " * 60


def record(path: Path, name: str = "run") -> Path:
    writer = Writer(path, name=name)
    for step, loss in enumerate(learning(60)):
        writer.write(step, {"loss/train": float(loss), LONG: float(loss), "metric/odd\x1b[31m\nname": float(loss)})
    writer.close()
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, str, list[str]]]:
    """`traindx serve` as users start it, with few files to open: address, port, key, and what it says."""
    folder = tmp_path_factory.mktemp("runs")
    record(folder / "run")
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "traindx", "serve", str(folder), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRAINDX_TOKEN"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (220, 220)),
    )
    assert child.stderr is not None
    first = child.stderr.readline()
    found = re.search(r"http://([^/:]+):(\d+)/\?token=(\S+)", first)
    assert found, first
    said = [first]
    threading.Thread(target=lambda: said.extend(child.stderr or ()), daemon=True).start()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if get(int(found[2]), "/")[0] == 401:
                break
        except OSError:
            time.sleep(0.1)
    yield found[1], int(found[2]), found[3], said
    child.kill()
    child.wait()


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request("GET", path, headers=headers)
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer.status, answer.getheader("set-cookie") or ""


def test_the_printed_address_is_a_literal_one_and_its_key_opens_once(served: tuple[str, int, str, list[str]]) -> None:
    host, port, key, said = served
    assert host == "127.0.0.1"
    status, cookie = get(port, f"/?token={key}")
    assert status == 303 and cookie.startswith(f"traindx_{port}=") and key not in cookie
    own = cookie.partition(";")[0]
    assert get(port, f"/?token={key}")[0] == 401
    assert get(port, "/api/runs", Authorization=f"Bearer {key}")[0] == 401
    assert get(port, "/api/runs", Cookie=own)[0] == 200
    assert get(port, f"/?token={key}", Cookie=own)[0] == 303  # the same browser, from its history
    until = time.monotonic() + 30
    while len(said) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    [another] = [m[1] for line in said[1:] if (m := re.search(r"token=(\S+)", line))]
    assert get(port, f"/?token={another}")[0] == 303


def test_idle_connections_do_not_stop_it_and_its_log_stays_small(served: tuple[str, int, str, list[str]]) -> None:
    _, port, _, said = served
    idle = []
    for _ in range(300):
        try:
            idle.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            idle[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")
        except OSError:
            continue
    assert get(port, "/")[0] == 401
    for one in idle:
        one.close()
    assert sum(map(len, said)) < 50_000


def test_a_connection_that_sends_no_request_is_closed(served: tuple[str, int, str, list[str]]) -> None:
    with socket.create_connection(("127.0.0.1", served[1]), timeout=60) as slow:
        slow.sendall(b"GET / HT")
        assert slow.recv(100) == b""


JUDGE = """
import json, sys, time
for line in sys.stdin:
    if "hostile" in line:
        time.sleep(1000)
    health = {"verdict": "healthy", "summary": "", "severity": None, "finding": None, "cause": None, "alarms": 0}
    print(json.dumps({"report": None, "stories": [], "health": health}), flush=True)
"""


def test_a_run_that_cannot_be_judged_costs_only_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_, "ours", lambda *_: [sys.executable, "-c", JUDGE])
    monkeypatch.setattr(doctor_, "BREATH_S", 0.0)
    doctor = Doctor()
    doctor.most_s = 3.0
    names = ["hostile-1", "hostile-2", "hostile-3", "fine-1", "fine-2"]
    for name in names:
        doctor.ask(name, tmp_path / name, 0, "1")
    until = time.monotonic() + 120
    while any(doctor.answer(n) is None for n in names) and time.monotonic() < until:
        time.sleep(0.05)
    told = {n: answer.health for n in names if (answer := doctor.answer(n)) is not None}
    doctor.close()
    assert told["fine-1"]["verdict"] == told["fine-2"]["verdict"] == "healthy"
    assert "took longer" in told["hostile-1"]["summary"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is played, which only root may")
def test_what_a_colleague_keeps_shut_is_shown_as_that(tmp_path: Path) -> None:
    record(tmp_path / "open")
    shut = record(tmp_path / "shut")
    (tmp_path / "closed").mkdir()
    for folder in [tmp_path, *tmp_path.parents][:4]:
        folder.chmod(0o755)
    for path in (tmp_path / "open").rglob("*"):
        path.chmod(0o755)
    (tmp_path / "open").chmod(0o755)
    for path in shut.iterdir():
        path.chmod(0o700)
    shut.chmod(0o755)
    (shut / "run.json").chmod(0o644)
    (tmp_path / "closed").chmod(0o700)
    os.seteuid(65534)
    try:
        states = {e.path.name: e.state for e in Library(tmp_path).entries()}
    finally:
        os.seteuid(0)
    assert states["open"] == "closed" and states["shut"] == "unreadable" and states["closed"] == "unreadable"


def client(folder: Path) -> TestClient:
    return TestClient(create_app(folder, "key"), base_url="http://localhost:7007", headers={"authorization": "Bearer key"})


def test_names_of_any_length_and_kind_are_drawn(tmp_path: Path) -> None:
    record(tmp_path / "run")
    ask = client(tmp_path)
    run_id = ask.get("/api/runs").json()["runs"][0]["id"]
    names = [s["name"] for s in ask.get(f"/api/run/{run_id}").json()["signals"]]
    assert len(names) == 3 and max(map(len, names)) < 200 and not any("\x1b" in n or "\n" in n for n in names)
    drawn = ask.get(f"/api/run/{run_id}/signals", params={"name": [*names, "gone"]}).json()["signals"]
    assert [d["name"] for d in drawn] == names and all(len(d["x"]) == 60 for d in drawn)


def test_a_folder_or_run_whose_name_is_no_text_costs_nobody_the_list(tmp_path: Path) -> None:
    for folder in (b"\xff run", b"two\nlines", b"..%2f"):
        record(Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), folder))), name="x\ud800\x1b[31m")
    ask = client(tmp_path)
    runs = ask.get("/api/runs").json()["runs"]
    assert len(runs) == 3
    assert {ask.get(f"/api/run/{run['id']}").status_code for run in runs} == {200}


@pytest.mark.parametrize(
    "origin", ["http://[bad", "http://localhost:7007@evil", "null", "", "http://localhost:7007/", "file://"]
)
def test_an_origin_that_is_not_ours_to_the_letter_is_refused(tmp_path: Path, origin: str) -> None:
    assert client(tmp_path).get("/api/runs", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost:7007:1", "evil@localhost", "localhost:x", "[::1", "[::1]x:7", "localhost:7007/x", "", "a b"]
)
def test_a_host_that_is_not_ours_to_the_letter_is_refused(tmp_path: Path, host: str) -> None:
    assert client(tmp_path).get("/api/runs", headers={"host": host}).status_code == 421
