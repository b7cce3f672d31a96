"""Finish and check the docs site that `zensical build` made: `python -m tools.site [--look]`.

The explorers get the modules of the dashboard that draw them; Zensical runs no hooks of mkdocs. Every link between pages must
lead somewhere. `--look` opens each page in a headless Chromium at four widths and fails on errors, blank pages and overflow.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
PAGE = ROOT / "src" / "traindx" / "dashboard" / "page"
MODULES = ("parts.js", "sketch.js", "charts.js", "explorers.js")
WIDTHS = (375, 768, 1280, 1920)


def finish() -> None:
    """Put the dashboard's modules next to the page that shows them."""
    for name in MODULES:
        shutil.copy(PAGE / name, SITE / "explorers" / name)


def dead_links() -> Iterator[str]:
    """Links within the site that lead nowhere."""
    for page in sorted(SITE.rglob("*.html")):
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            path = unquote(urldefrag(link).url)
            if not path or re.match(r"[a-z]+:|//", path) or page.name == "404.html":
                continue
            target = (SITE / path.lstrip("/")) if path.startswith("/") else page.parent / path
            if not (target.is_file() or (target / "index.html").is_file()):
                yield f"{page.relative_to(SITE)}: {link}"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: only faults are reported."""


def faults_in_a_browser() -> Iterator[str]:
    """Errors, missing files, blank pages and sideways scrolling, as a reader would meet them."""
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("response", lambda r: said.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
        for file in sorted(SITE.rglob("index.html")):
            name = file.parent.relative_to(SITE).as_posix()
            for width in WIDTHS if name in (".", "explorers", "tutorial", "figures") else WIDTHS[:1]:
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(f"http://127.0.0.1:{server.server_port}/{name}/", wait_until="networkidle")
                if len(page.inner_text("article")) < 100:
                    said.append("blank")
                if page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1"):
                    said.append("wider than the screen")
                if name == "explorers" and (empty := page.evaluate(_EMPTY)):
                    said.append(f"explorers without a drawing: {empty}")
                yield from (f"{name} at {width} px: {what}" for what in said)
                said.clear()
        browser.close()
    server.shutdown()


_EMPTY = """async () => {
  const all = [...document.querySelectorAll("[data-explorer]")];
  for (const one of all) { one.scrollIntoView(); await new Promise((done) => setTimeout(done, 500)); }  // drawn when seen
  return all.filter((one) => !one.querySelector("svg, canvas")).map((one) => one.dataset.explorer);
}"""


def main(look: bool) -> None:
    """Finish the site and name what is wrong with it."""
    finish()
    found = [f"dead link in {link}" for link in dead_links()] + (list(faults_in_a_browser()) if look else [])
    if found:
        sys.exit("\n".join([*found, f"{len(found)} faults in the site"]))
    print(f"{len(list(SITE.rglob('index.html')))} pages in {SITE.relative_to(ROOT)}/, no dead link")


if __name__ == "__main__":
    main("--look" in sys.argv)
