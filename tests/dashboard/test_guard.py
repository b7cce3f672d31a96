"""Nobody but the user reads the dashboard: the product of every route, method, host, origin and key."""

from __future__ import annotations

import asyncio
import itertools
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from runs import a_run, learning
from traindx.cli import serve
from traindx.dashboard.server import create_app
from traindx.diagnosis import diagnose
from traindx.record import Writer, read
from traindx.report import html

TOKEN = "right-key"
GOOD = {"host": "localhost:7007", "authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "log.csv").write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(learning(300))))
    return TestClient(create_app(folder / "log.csv", TOKEN), base_url="http://localhost:7007", follow_redirects=False)


def paths(client: TestClient) -> list[str]:
    fill = {"id": "0" * 16, "a": "0" * 16, "b": "0" * 16, "code": "LOSS001", "name": "app.js"}
    return [r.path.format(**fill) for r in client.app.routes if isinstance(r, Route) and "live" not in r.path]  # type: ignore[attr-defined]


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
HOSTS = ("localhost:7007", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7007", "")
ORIGINS = (None, "http://localhost:7007", "http://evil.example", "null", "http://localhost:9999")
KEYS = (TOKEN, "wrong", "", TOKEN[:-1])


async def status(app: Any, method: str, path: str, headers: dict[str, str]) -> int:
    """The status of one request, asked of the application itself: a client would take a minute for the whole product."""
    raw = [(k.encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": raw}
    scope |= {
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 7007),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    seen: list[int] = []
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(asked, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen.append(message["status"])

    await app(scope, receive, send)
    return seen[0]


def test_only_a_read_with_the_key_from_our_own_page_is_answered(client: TestClient) -> None:
    async def product() -> None:
        for path, method, host, origin, key in itertools.product(paths(client), METHODS, HOSTS, ORIGINS, KEYS):
            headers = {"host": host, "authorization": f"Bearer {key}"}
            if origin is not None:
                headers["origin"] = origin
            fine = method in ("GET", "HEAD") and host == HOSTS[0] and origin in (None, ORIGINS[1]) and key == TOKEN
            found = await status(client.app, method, path, headers)
            wanted = (200, 404) if fine else (401, 403, 405, 421)
            assert found in wanted, (path, method, host, origin, key, found)

    asyncio.run(product())


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_from_other_sites_are_refused(client: TestClient, site: str) -> None:
    assert client.get("/api/runs", headers={**GOOD, "sec-fetch-site": site}).status_code == 403


def test_the_key_in_the_address_becomes_a_strict_cookie(client: TestClient) -> None:
    answer = client.get(f"/?token={TOKEN}", headers={"host": "localhost:7007"})
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303 and "samesite=strict" in cookie and "httponly" in cookie
    client.cookies.clear()
    assert client.get("/?token=wrong", headers={"host": "localhost:7007"}).status_code == 401


def test_every_answer_carries_the_policy(client: TestClient) -> None:
    for headers in (GOOD, {"host": "localhost:7007"}):
        answer = client.get("/", headers=headers)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
        assert "access-control-allow-origin" not in answer.headers


def test_no_id_reaches_the_file_system(client: TestClient) -> None:
    for evil in ("..%2f..%2fetc%2fpasswd", "%2e%2e", "x" * 5000, "../../etc/passwd"):
        assert client.get(f"/api/run/{evil}", headers=GOOD).status_code in (400, 404)
        assert client.get(f"/static/{evil}", headers=GOOD).status_code in (400, 404)


def test_a_run_and_its_signals_are_served(client: TestClient) -> None:
    [row] = client.get("/api/runs", headers=GOOD).json()["runs"]
    assert row["health"]["verdict"] in ("healthy", "wait")
    run = client.get(f"/api/run/{row['id']}", headers=GOOD).json()
    assert run["report"]["schema"] == "traindx.report/1"
    data = client.get(f"/api/run/{row['id']}/signals", params={"name": "loss/train", "points": 50}, headers=GOOD).json()[
        "signals"
    ][0]
    assert len(data["x"]) <= 60 and data["records"] == 300
    bad = client.get(f"/api/run/{row['id']}/signals", params={"name": "loss/train", "lo": "x"}, headers=GOOD)
    assert bad.status_code == 400


def test_the_ranks_of_a_run_are_served_and_reported(tmp_path: Path) -> None:
    for rank in range(2):
        writer = Writer(tmp_path / "r", rank=rank, name="two")
        for step in range(30):
            writer.write(step, {"loss/train": 1.0 + rank, "rank/fingerprint": float(step + (rank and step > 9))})
        writer.close()
    client = TestClient(create_app(tmp_path, TOKEN), base_url="http://localhost:7007")
    [row] = client.get("/api/runs", headers=GOOD).json()["runs"]
    shown = client.get(f"/api/run/{row['id']}", headers=GOOD).json()["ranks"]
    assert shown["all"] == 2 and [r["loss"] for r in shown["rows"]] == ["1\u00a0±\u00a00", "2\u00a0±\u00a00"]
    assert shown["parting"] == "the parameters differ from step 10 on (rank 0, rank 1)"
    assert "ranks side by side" in html.render([diagnose(read(tmp_path / "r"))])


def test_a_spike_of_one_step_survives_the_thinning(tmp_path: Path) -> None:
    import numpy as np

    values = np.ones(100_000)
    values[54_321] = 9.0
    from traindx.report.thinning import thin

    steps, kept = thin(np.arange(100_000), values, 500)
    assert 9.0 in kept and 54_321 in steps
    assert len(a_run(loss__train=values)["loss/train"]) == 100_000


def test_beyond_loopback_the_machines_own_addresses_and_allowed_names_are_answered(tmp_path: Path) -> None:
    own = next(a.address for found in psutil.net_if_addrs().values() for a in found if a.family is socket.AF_INET)
    everywhere = (*serve._names("0.0.0.0"), "box.example")
    for names, host, status in (
        (everywhere, own, 401),
        (everywhere, socket.gethostname(), 401),
        (everywhere, "box.example", 401),
        (everywhere, "evil.example", 421),
        (serve._names("127.0.0.1"), "box.example", 421),
    ):
        app = create_app(tmp_path, "key", names, port=7007)
        assert TestClient(app, base_url=f"http://{host}:7007").get("/").status_code == status, host
