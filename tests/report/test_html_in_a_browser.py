"""The report in a real Chromium: offline, quiet, readable without scripts, on a phone and in the dark; it obeys no log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import XSS, opened, overflows
from runs import a_run, learning, noise
from traindx.diagnosis import Diagnosis, diagnose
from traindx.report import html
from traindx.run import Event, Matrix, Run

pytestmark = pytest.mark.browser


def sick() -> Run:
    """A run that diverges, with layers, an evaluation, times and memory: every chapter of the report has something to show."""
    n = 400
    layers = [f"{i}.{w}" for i in range(4) for w in ("weight", "bias")]
    loss = np.r_[learning(300), np.geomspace(0.4, 80, 100)]
    grads = {name: np.r_[np.full(300, 0.1 * (i + 1)), np.geomspace(0.1, 500, 100)] for i, name in enumerate(layers)}
    quantiles = {
        f"weight_q{q:02d}/param": {w: np.linspace(v, 2 * v, n) for w in layers}
        for q, v in ((5, -2.0), (25, -1.0), (50, 0.0), (75, 1.0), (95, 2.0))
    }
    return a_run(
        {
            "loss/train": loss,
            "loss/val": loss + 0.1,
            "lr": np.full(n, 0.1),
            "grad_norm": np.r_[np.full(300, 1.0), np.geomspace(1, 900, 100)],
            "grad_norm/param": grads,
            "update_ratio/param": {w: np.r_[np.full(300, 2e-3), np.geomspace(2e-3, 3.0, 100)] for w in layers},
            "act_rms/module": {str(i): np.full(n, 1.0 + i) for i in range(4)},
            "dead_fraction/module": {str(i): np.full(n, 0.1 * i) for i in range(4)},
            "time/step": np.full(n, 0.1),
            "time/data": np.full(n, 0.03),
            "time/forward": np.full(n, 0.04),
            "mem/rss": np.linspace(1e9, 1.1e9, n),
            "rank/loss": {"0": loss, "1": loss + noise(n, 0.01)},
            "trial/landscape": Matrix(np.arange(3), ("-1.0", "0.0", "1.0"), np.array([[3.0, 2, 3], [2, 1, 2], [3, 2, 3]])),
            **quantiles,
        },
        facts={
            "model.outline": [{"name": str(i), "class": "Linear", "params": 10, "order": i} for i in range(4)],
            "eval.confusion": [[8, 2], [1, 9]],
        },
    )


def written(folder: Path, *diagnoses: Diagnosis) -> str:
    file = folder / "report.html"
    file.write_text(html.render(diagnoses), encoding="utf-8")
    assert file.stat().st_size < 6_000_000
    return file.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report"), diagnose(sick()))


def drawn(page: Any) -> None:
    """Charts are drawn when they come into sight."""
    page.locator("#traindx-explore").scroll_into_view_if_needed()
    page.locator("#traindx-explore .plot .main-svg").first.wait_for(timeout=90_000)


def test_it_asks_nothing_of_the_network_and_complains_of_nothing(chromium: Any, address: str) -> None:
    with opened(chromium, address) as book:
        drawn(book.page)
        for fold in book.page.locator("details.signals > summary").all()[1:3]:
            fold.click()
        book.page.wait_for_timeout(300)
        book.clean()


def test_without_scripts_the_verdict_the_findings_and_the_pictures_are_there(chromium: Any, address: str) -> None:
    with opened(chromium, address, java_script_enabled=False) as book:
        page = book.page
        assert page.locator("header.verdict h1").inner_text()
        for chapter in ("Evidence", "Depth map", "Vital signs", "What was measured", "What was checked"):
            assert page.get_by_role("heading", name=chapter, exact=True).is_visible()
        for picture in (
            "Loss",
            "gradient flow: layer × step",
            "one step, from data to update",
            "loss around the weights",
            "loss by rank",
        ):
            assert page.locator("figcaption", has_text=picture).first.is_visible()
        assert page.locator(".shade").count() and page.locator(".band").count()
        assert page.locator("table.vitals tbody tr").count() == 6
        assert page.locator("tr.bad .layer").count()
        book.clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_by_4_5_to_1(chromium: Any, address: str, scheme: str) -> None:
    with opened(chromium, address, color_scheme=scheme) as book:
        assert book.page.evaluate(CONTRAST) == []


def test_a_phone_shows_it_without_scrolling_sideways(chromium: Any, address: str) -> None:
    with opened(chromium, address, viewport={"width": 390, "height": 800}) as book:
        assert not overflows(book.page)
        texts = "[...document.querySelectorAll('.ty, .tx, .lab, li, p, td')]"
        smallest = book.page.evaluate(f"Math.min(...{texts}.map(n => parseFloat(getComputedStyle(n).fontSize)))")
        assert smallest >= 11


def test_the_prescription_is_copied_by_its_button(chromium: Any, address: str) -> None:
    with opened(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as book:
        wanted = book.page.locator("header .do .copy").inner_text()
        book.page.locator("header .do button").click()
        book.page.locator("header .do button", has_text="copied").wait_for()
        assert book.page.evaluate("navigator.clipboard.readText()") == wanted


def test_the_keyboard_reaches_every_fold_and_opens_it(chromium: Any, address: str) -> None:
    with opened(chromium, address) as book:
        fold = book.page.locator("details > summary").last
        fold.focus()
        book.page.keyboard.press("Enter")
        assert book.page.locator("details").last.evaluate("d => d.open")
        assert fold.evaluate("s => getComputedStyle(s).outlineStyle") != "none"


def test_no_string_of_a_log_becomes_anything_but_text(chromium: Any, tmp_path: Path) -> None:
    diagnoses = [diagnose(evil(x)) for x in (XSS[:24], XSS[24:48], XSS[48:])]
    with opened(chromium, written(tmp_path, *diagnoses)) as book:
        page = book.page
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        drawn(page)
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(300)
        book.clean()
        assert (
            page.evaluate("document.querySelectorAll('iframe, object, embed, form, base, img, marquee, video, audio').length")
            == 0
        )
        assert "alert('pwned')" in page.content()


def evil(strings: tuple[str, ...]) -> Run:
    """A run in which every field that a log can fill holds strings of the corpus."""
    run = sick()
    names = list(strings)
    loss = run.signals["loss/train"]
    matrix = {name: np.r_[np.full(300, 0.1), np.geomspace(0.1, 500, 100)] for name in names}
    more = a_run(
        {
            **{f"metric/val/{n}": loss.values for n in names[:8]},
            "grad_norm/param": matrix,
            "update_ratio/param": matrix,
            "act_rms/module": matrix,
            "rank/loss": dict.fromkeys(names[:3], loss.values),
        }
    )
    facts: dict[str, Any] = {
        **{n: n for n in names},
        "script": names[0],
        "model.class": names[1],
        "optimizer.name": names[2],
        "model.outline": [{"name": n, "class": n, "params": 1, "order": i} for i, n in enumerate(names)],
        "data.class_counts": dict.fromkeys(names, 3),
        "eval.slices": [{"slice": n, "n": 3, n: n} for n in names],
        "data.bad_samples": [{"step": 1, "field": n, "kind": n, "samples": [n]} for n in names],
        "memory.growth": [{"line": n, "kind": n, "per_step": 1.0, "holder": n} for n in names],
        "exception": {"type": names[3], "message": names[4], "file": names[5], "line": 1},
        "blind": {n: n for n in names},
    }
    events = [Event(i, n, {n: n}) for i, n in enumerate(names)]
    return Run({**run.signals, **more.signals}, facts, tuple(events), tuple(names), names[0], names[1])


# Every visible text against the first opaque ground behind it, by the formula of WCAG 2; large text may have 3 : 1.
CONTRAST = """() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (css) => {
    probe.clearRect(0, 0, 1, 1); probe.fillStyle = css; probe.fillRect(0, 0, 1, 1);
    const d = probe.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255];
  };
  const bent = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * bent(r / 255) + 0.7152 * bent(g / 255) + 0.0722 * bent(b / 255);
  const texts = "h1, h2, h3, h4, p, li, td, th, summary, .badge, .lab, .ty, .tx, figcaption, code, button";
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const bad = new Set();
  for (const node of document.querySelectorAll(texts)) {
    if (!node.checkVisibility() || !node.textContent.trim()) continue;
    const layers = [];
    for (let n = node; n; n = n.parentElement) layers.push(rgba(getComputedStyle(n).backgroundColor));
    const ground = layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    const ink = over(rgba(getComputedStyle(node).color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const style = getComputedStyle(node);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.add(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${style.color}`);
  }
  return [...bad].slice(0, 10);
}"""
