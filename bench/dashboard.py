"""How quick the dashboard is: first paint and zoom on a million points, 24 charts at 1 Hz, 50 viewers, 1,000 runs.

    python bench/dashboard.py            # writes bench/results/dashboard.json

The server is `traindx serve` in a process of its own; the browser is a headless Chromium; the viewers are threads of this
process. Times hold for the machine as it was: the load average is written beside them.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np

from traindx.record import Writer

TOKEN = "bench"
OUT = Path(__file__).parent / "results" / "dashboard.json"
LIMITS = {"first_paint_s": 2.0, "zoom_ms": 200.0, "viewers_p95_ms": 300.0, "list_s": 3.0, "longest_frame_ms": 200.0}
NAMES = [f"metric/val/m{i:02d}" for i in range(23)] + ["loss/train"]


class Served:
    """`traindx serve` on a folder."""

    def __init__(self, folder: Path) -> None:
        env = os.environ | {"TRAINDX_TOKEN": TOKEN}
        command = [sys.executable, "-m", "traindx", "serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.port = int(urllib.parse.urlsplit(self.process.stderr.readline().split()[1]).port or 0)
        self.url = f"http://localhost:{self.port}/"

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(10)

    def get(self, path: str, connection: http.client.HTTPConnection | None = None) -> tuple[float, Any]:
        """Seconds and answer of one request."""
        own = connection or http.client.HTTPConnection("localhost", self.port, timeout=60)
        begun = time.perf_counter()
        own.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        body = own.getresponse().read()
        took = time.perf_counter() - begun
        return took, json.loads(body)

    def only_run(self) -> str:
        return str(self.get("/api/runs")[1]["runs"][0]["id"])


def million(folder: Path, n: int = 1_000_000) -> None:
    """A million steps of three signals, with one spike of one step."""
    rng = np.random.default_rng(0)
    loss = 0.3 + 2 * (1 + np.arange(n) / 2000) ** -0.7 + rng.normal(0, 0.05, n)
    loss[543_210] = 9.0
    writer = Writer(folder / "million", name="million")
    for i in range(n):
        writer.write(i, {"loss/train": float(loss[i]), "lr": 1e-3, "grad_norm": 1.0 + 0.1 * float(loss[i])})
        if i % 5000 == 0:
            writer.flush()
    writer.close()


def thousand(folder: Path, runs: int = 1000) -> None:
    for r in range(runs):
        writer = Writer(folder / f"run-{r:04d}", name=f"run-{r:04d}")
        for i in range(40):
            writer.write(i, {"loss/train": 2.0 / (1 + i)})
        writer.close()


def zoom(server: Served) -> dict[str, float]:
    """Server time of 30 windows of all widths, and whether the one-step spike is in every one that holds it."""
    run, rng, times, spikes = server.only_run(), np.random.default_rng(1), [], 0
    cold, _ = server.get(f"/api/run/{run}")
    own = http.client.HTTPConnection("localhost", server.port, timeout=60)
    for i in range(30):
        wide = int(10 ** rng.uniform(3, 6))
        lo = int(rng.integers(0, 1_000_000 - min(wide, 999_999)))
        if i < 10:
            lo = max(0, 543_210 - wide // 2)
        took, got = server.get(f"/api/run/{run}/signals?name=loss/train&points=2000&lo={lo}&hi={lo + wide}", own)
        times.append(1000 * took)
        if i < 10:
            spikes += 9.0 in got["signals"][0]["y"]
    return {
        "open_run_cold_s": cold,
        "zoom_ms": max(times),
        "zoom_median_ms": float(np.median(times)),
        "spike_kept_of_10": spikes,
    }


def browse(server: Served) -> dict[str, float]:
    """What a person sees when a million-point run is opened in a fresh browser against a fresh server."""
    from playwright.sync_api import sync_playwright

    run = server.only_run()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{server.url}?token={TOKEN}")
        page.goto("about:blank")
        begun = time.perf_counter()
        page.goto(f"{server.url}#/run/{run}")
        page.locator("header.verdict h1").wait_for()
        text = time.perf_counter() - begun
        page.locator(".plot[data-drawn]").first.wait_for()
        chart = time.perf_counter() - begun
        paint = (
            page.evaluate("performance.getEntriesByType('paint').find(p => p.name === 'first-contentful-paint').startTime")
            / 1000
        )
        page.locator(".plot[data-drawn]").first.hover()
        page.locator(".plot.js-plotly-plot").first.wait_for()
        ready = time.perf_counter() - begun
        browser.close()
    return {"first_contentful_paint_s": paint, "first_text_s": text, "first_paint_s": chart, "interactive_s": ready}


class Growing(threading.Thread):
    """A run of 24 signals that grows once a second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.writer = Writer(folder / "live", name="live", flush=0.2)
        self.step, self.going = 0, True
        self.grow(3000)

    def grow(self, n: int) -> None:
        for _ in range(n):
            value = 2.0 / (1 + self.step / 200)
            self.writer.write(self.step, dict.fromkeys(NAMES, value))
            self.step += 1
            if self.step % 1000 == 0:
                self.writer.flush()

    def run(self) -> None:
        while self.going:
            time.sleep(1.0)
            self.grow(20)
        self.writer.close()


def stutter(server: Served, seconds: float = 12.0) -> dict[str, float]:
    """The longest gaps between two frames while 24 visible charts are redrawn each second."""
    from playwright.sync_api import sync_playwright

    run = server.only_run()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1700, "height": 5200})
        page.goto(f"{server.url}?token={TOKEN}")
        page.goto(f"{server.url}#/run/{run}")
        page.locator(".plot[data-drawn]").nth(23).wait_for(timeout=60_000)
        while not page.evaluate("Boolean(window.Plotly)"):
            page.wait_for_timeout(100)
        count = "[...document.querySelectorAll('.plot[data-drawn]')].map(p => Number(p.dataset.drawn))"
        before = page.evaluate(count)
        gaps = page.evaluate(
            """(ms) => new Promise((done) => { const gaps = []; const begun = performance.now(); let last = begun;
            const turn = (now) => { gaps.push(now - last); last = now; if (now - begun < ms) requestAnimationFrame(turn); else done(gaps); };
            requestAnimationFrame(turn); })""",
            seconds * 1000,
        )
        after = page.evaluate(count)
        browser.close()
    redraws = (sum(after) - sum(before)) / max(1, len(before)) / seconds
    return {
        "charts": len(before),
        "redraws_per_second": redraws,
        "longest_frame_ms": max(gaps[2:]),
        "p99_frame_ms": float(np.quantile(gaps[2:], 0.99)),
    }


def viewers(server: Served, count: int = 50, seconds: float = 12.0) -> dict[str, float]:
    """Each viewer listens to the events of a live run and fetches its 24 charts once a second."""
    run = server.only_run()
    query = "&".join(f"name={urllib.parse.quote(n, safe='')}" for n in NAMES)
    times: list[float] = []
    until = time.monotonic() + seconds

    def listen() -> None:
        own = http.client.HTTPConnection("localhost", server.port, timeout=60)
        own.request("GET", f"/api/run/{run}/live", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = own.getresponse()
        while time.monotonic() < until:
            answer.readline()
        own.close()

    def look(i: int) -> None:
        own = http.client.HTTPConnection("localhost", server.port, timeout=60)
        time.sleep(i / count)
        while time.monotonic() < until:
            begun = time.monotonic()
            took, _ = server.get(f"/api/run/{run}/signals?{query}&points=900", own)
            times.append(1000 * took)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))

    threads = [threading.Thread(target=listen, daemon=True) for _ in range(count)]
    threads += [threading.Thread(target=look, args=(i,), daemon=True) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds + 30)
    p50, p95 = np.quantile(times, [0.5, 0.95])
    return {"viewers": count, "requests": len(times), "viewers_median_ms": float(p50), "viewers_p95_ms": float(p95)}


def measured(part: str, place: Path) -> dict[str, float]:
    """The figures of one part: big, many or live."""
    if part == "big":
        million(place)
        with Served(place) as server:
            seen = browse(server)
        with Served(place) as server:
            return seen | zoom(server)
    if part == "many":
        thousand(place)
        with Served(place) as server:
            took, answer = server.get("/api/runs")
            assert len(answer["runs"]) == 1000
            return {"list_s": took}
    growing = Growing(place)
    growing.start()
    try:
        with Served(place) as server:
            return stutter(server) | viewers(server)
    finally:
        growing.going = False
        growing.join(10)


def main() -> None:
    """Measure the parts named (all when none is) and renew their figures in the result file."""
    kept = json.loads(OUT.read_text())["figures"] if OUT.exists() else {}
    for part in sys.argv[1:] or ("big", "many", "live"):
        with tempfile.TemporaryDirectory() as place:
            kept |= {k: round(v, 3) for k, v in measured(part, Path(place)).items()}
        kept[f"load_average_{part}"] = round(os.getloadavg()[0], 1)
        missed = [k for k, limit in LIMITS.items() if kept.get(k, 0.0) > limit]
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(
            json.dumps({"figures": kept, "limits": LIMITS, "missed": missed, "cores": os.cpu_count()}, indent=1) + "\n"
        )
    print(OUT.read_text())


if __name__ == "__main__":
    main()
