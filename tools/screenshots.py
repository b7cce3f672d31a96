"""Take the pictures of the docs with a real browser: `python -m tools.screenshots DIR`, DIR as for `tools.gallery`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

OUT = Path(__file__).parent.parent / "docs" / "pictures"
SIZES = {"light": 1100, "dark": 1100, "phone": 390}
REPORTS = {"overfit_small_sample": 1750, "sigmoid_tower": 1750}
MOST = 300_000  # bytes


def context(browser: Any, mode: str, height: int) -> Any:
    scheme = "dark" if mode == "dark" else "light"
    return browser.new_context(viewport={"width": SIZES[mode], "height": height}, color_scheme=scheme)


def save(page: Any, name: str, height: int) -> None:
    from PIL import Image

    file = OUT / f"{name}.png"
    page.screenshot(path=str(file), clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height})
    Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size} bytes")
    assert file.stat().st_size <= MOST


def reports(browser: Any, folder: Path) -> None:
    for name, height in REPORTS.items():
        target = folder / f"{name}.html"
        subprocess.run([sys.executable, "-m", "traindx", "report", name, "-o", str(target)], check=True, cwd=folder)
        for mode in SIZES:
            place = context(browser, mode, height)
            page = place.new_page()
            page.goto(target.as_uri())
            save(page, f"report-{name.replace('_', '-')}-{mode}", height)
            place.close()


def dashboard(browser: Any, folder: Path) -> None:
    env = os.environ | {"TRAINDX_TOKEN": "picture"}
    command = [sys.executable, "-m", "traindx", "serve", ".", "--port", "0"]
    server = subprocess.Popen(command, env=env, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    base = f"http://localhost:{urlsplit(server.stderr.readline().split()[1]).port}/"
    try:
        for mode in SIZES:
            place = context(browser, mode, 900)
            page = place.new_page()
            page.goto(f"{base}?token=picture")
            page.locator(".runs .badge").first.wait_for(timeout=120_000)
            page.get_by_text("judged so far").wait_for(state="hidden", timeout=120_000)
            page.wait_for_timeout(1500)
            save(page, f"dashboard-runs-{mode}", 900)
            page.locator(".runs a", has_text="overfit_small_sample").first.click()
            page.locator(".finding").first.wait_for(timeout=60_000)
            page.mouse.move(2, 2)  # charts that are pointed at show their buttons
            page.locator(".plot[data-drawn]").first.wait_for(timeout=60_000)
            page.wait_for_timeout(1500)
            save(page, f"dashboard-run-{mode}", 900)
            if mode != "phone":
                page.goto(f"{base}#/gallery")
                page.locator(".plot[data-drawn]").first.wait_for(timeout=60_000)
                page.wait_for_timeout(800)
                save(page, f"dashboard-gallery-{mode}", 900)
            if mode == "light":
                for name in ("gradients", "units", "weights"):
                    page.goto(f"{base}#/{name}")
                    page.locator(".plot[data-drawn]").first.wait_for(timeout=60_000)
                    page.wait_for_timeout(800)
                    save(page, f"dashboard-{name}-light", 900)
            place.close()
    finally:
        server.terminate()
        server.wait(10)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        reports(browser, Path(sys.argv[1]))
        dashboard(browser, Path(sys.argv[1]))
        browser.close()


if __name__ == "__main__":
    main()
