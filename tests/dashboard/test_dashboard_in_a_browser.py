"""The dashboard in a real Chromium: it grows with the run, answers the keyboard, fits a phone, and obeys no log."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

from browsers import XSS, Book, opened, overflows
from patience import until
from runs import learning
from traindx.dashboard.server import create_app
from traindx.record import Writer

pytestmark = pytest.mark.browser
TOKEN = "key"
LAYERS = [f"layer.{i}" for i in range(4)]


def record(path: Path, losses: np.ndarray, name: str = "", layers: list[str] = LAYERS) -> Writer:
    """A record that is still open."""
    writer = Writer(path, name=name or path.name, flush=0.05)
    writer.names("grad_norm/param", layers)
    grow(writer, 0, losses, len(layers))
    return writer


def grow(writer: Writer, start: int, losses: np.ndarray, layers: int = len(LAYERS)) -> None:
    for step, loss in enumerate(losses, start):
        row = {"loss/train": float(loss), "lr": 0.1, "grad_norm": 1.0, "grad_norm/param": np.full(layers, 0.5, np.float32)}
        writer.write(step, row)
    writer.flush()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The dashboard of a folder on a free port; the address without the key."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(folder, TOKEN), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://localhost:{sock.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    sock.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    record(place / "well", learning(400)).close()
    record(place / "sick", np.r_[learning(300), np.geomspace(0.4, 80, 200)]).close()
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder) as found:
        yield found


@contextlib.contextmanager
def visit(chromium: Any, address: str, hash_: str = "", **context: Any) -> Iterator[Book]:
    with opened(chromium, f"{address}?token={TOKEN}", own=address, **context) as book:
        if hash_:
            book.page.goto(f"{address}{hash_}")
        yield book


def open_run(book: Book, name: str) -> None:
    book.page.locator(".runs a", has_text=name).click()
    book.page.locator("header.verdict h1").wait_for()
    book.page.locator(".plot[data-drawn]").first.wait_for(timeout=90_000)


def test_the_worst_run_stands_first_and_the_search_finds(chromium: Any, address: str) -> None:
    with visit(chromium, address) as book:
        page = book.page
        page.locator(".runs .badge").nth(1).wait_for()
        assert page.locator(".runs tbody tr a").first.inner_text() == "sick"
        page.keyboard.press("/")
        page.keyboard.type("well")
        assert page.locator(".runs tbody tr a").all_inner_texts() == ["well"]
        assert "token" not in page.url
        book.clean()


def test_the_list_shows_what_differs_and_sorts_by_it(chromium: Any, tmp_path: Path) -> None:
    for i, rate in enumerate((0.1, 1.0, 0.01)):
        (tmp_path / f"r{i}").mkdir()
        (tmp_path / f"r{i}" / "config.json").write_text(json.dumps({"lr": rate}))
        rows = [f"{e},{2.3 * 0.9**e:.4f},{0.5 + e / 100 + i / 10:.3f}" for e in range(20)]
        (tmp_path / f"r{i}" / "log.csv").write_text("epoch,train_loss,val_acc\n" + "\n".join(rows))
    with served(tmp_path) as address, visit(chromium, address) as book:
        names, best = book.page.locator(".runs tbody tr a"), book.page.get_by_role("button", name="best val_acc")
        best.wait_for(timeout=90_000)
        best.click()
        assert names.all_inner_texts() == ["r2/log.csv", "r1/log.csv", "r0/log.csv"]
        book.page.get_by_role("button", name="lr").click()
        book.page.get_by_role("button", name="lr").click()
        assert [name[:2] for name in names.all_inner_texts()] == ["r2", "r0", "r1"]
        book.clean()


def test_the_keyboard_opens_a_run_and_explains_a_finding(chromium: Any, address: str) -> None:
    with visit(chromium, address) as book:
        page = book.page
        page.locator(".runs .badge").nth(1).wait_for()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.locator(".finding", has_text="LOSS001").wait_for()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.locator("dialog[open]", has_text="What it sees").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("?")
        assert page.locator("dialog[open] code").count() >= 5
        book.clean()


def test_a_run_page_grows_while_the_run_does(chromium: Any, tmp_path: Path) -> None:
    writer = record(tmp_path / "live", learning(200))
    with served(tmp_path) as address, visit(chromium, address) as book:
        open_run(book, "live")
        book.page.locator("#live", has_text="step 199").wait_for()
        plot = book.page.locator(".plot[data-drawn]").first
        before = int(plot.get_attribute("data-drawn"))
        grow(writer, 200, np.geomspace(0.4, 80, 200))
        book.page.locator("#live", has_text="step 399").wait_for(timeout=90_000)
        book.page.locator(".finding", has_text="LOSS001").wait_for(timeout=90_000)
        assert until(lambda: int(plot.get_attribute("data-drawn")) > before)
        book.clean()
        writer.close()


def test_zooming_fetches_what_lies_between(chromium: Any, address: str) -> None:
    with visit(chromium, address) as book:
        open_run(book, "sick")
        book.page.locator(".plot[data-drawn]").first.hover()
        book.page.locator(".plot.js-plotly-plot").first.wait_for(timeout=90_000)
        with book.page.expect_response(lambda r: "lo=" in r.url) as answer:
            book.page.evaluate(
                "Plotly.relayout(document.querySelector('.plot[data-drawn]'), {'xaxis.range[0]': 10, 'xaxis.range[1]': 60})"
            )
        [signal] = answer.value.json()["signals"]
        assert min(signal["x"]) >= 10 and max(signal["x"]) <= 60
        book.clean()


def test_charts_are_drawings_until_somebody_points_at_them(chromium: Any, address: str) -> None:
    with visit(chromium, address) as book:
        open_run(book, "sick")
        page = book.page
        assert page.locator(".plot svg.sketch path").first.get_attribute("d").count("L") > 50
        assert "ends at" in page.locator(".plot[data-drawn]").first.get_attribute("aria-label")
        for i in range(5):  # the fifth sends the first back to rest
            page.locator(".plot").nth(i).scroll_into_view_if_needed()
            page.locator(".plot[data-drawn]").nth(i).hover()
            page.locator(".plot").nth(i).locator("svg.main-svg").first.wait_for(timeout=90_000)
        page.locator(".plot").first.locator("svg.sketch").wait_for(timeout=90_000)
        book.clean()


def test_two_runs_are_compared(chromium: Any, address: str) -> None:
    with visit(chromium, address) as book:
        boxes = book.page.locator(".runs input[type=checkbox]")
        boxes.nth(1).wait_for()
        for name in boxes.evaluate_all("all => all.map(box => box.ariaLabel)")[:2]:  # judging may change their order
            book.page.get_by_label(name, exact=True).check()
        book.page.get_by_role("button", name="Compare two").click()
        book.page.get_by_text("They part at step").wait_for()
        book.page.locator(".plot[data-drawn]").first.wait_for(timeout=90_000)
        book.clean()


@pytest.mark.parametrize("page_", ["#/gallery", "#/gradients", "#/units", "#/weights"])
def test_the_explorers_draw_and_answer(chromium: Any, address: str, page_: str) -> None:
    with visit(chromium, address, page_) as book:
        book.page.locator(".plot[data-drawn]").first.wait_for(timeout=90_000)
        if page_ == "#/gallery":
            book.page.get_by_role("button", name="Overfitting").click()
            book.page.get_by_text("learns the sample by heart").wait_for()
        if page_ == "#/gradients":
            book.page.get_by_label("activation").select_option("sigmoid")
            book.page.get_by_text("vanishing").wait_for()
            book.page.get_by_label("initialisation").select_option("zero")
            book.page.get_by_label("activation").select_option("relu")
            book.page.get_by_text("dead: no weight gets any gradient").wait_for()
            book.page.get_by_label("initialisation").select_option("uniform")
            book.page.get_by_label("activation").select_option("tanh")
            book.page.get_by_text("fading").wait_for()
            refused = book.page.evaluate(
                "fetch('/api/explore/gradients?activation=nope').then(async (r) => [r.status, await r.json()])"
            )
            assert refused[0] == 400 and "nope" in refused[1]["error"]
            return  # the browser's console tells of the refusal
        book.clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_list_and_run_without_scrolling_sideways(chromium: Any, address: str, scheme: str) -> None:
    with visit(chromium, address, viewport={"width": 390, "height": 800}, color_scheme=scheme) as book:
        book.page.locator(".runs .badge").nth(1).wait_for()
        assert not overflows(book.page)
        open_run(book, "sick")
        assert not overflows(book.page)
        every = "[...document.querySelectorAll('button, input, select, a')]"
        assert book.page.evaluate(f"{every}.filter(n => !(n.ariaLabel || n.textContent || n.labels?.length)).length") == 0
        book.clean()


def test_no_name_in_a_record_becomes_anything_but_text(chromium: Any, tmp_path: Path) -> None:
    names = [x for x in XSS if "\x00" not in x]
    writer = record(tmp_path / "evil", np.r_[learning(300), np.geomspace(0.4, 80, 200)], names[0], names)
    for i, name in enumerate(names[:40]):
        for step in range(5):
            writer.write(600 + step, {f"metric/val/{name}": float(i + step)})
    for key, value in zip(("model.class", "optimizer.name", "script", "device"), names[1:], strict=False):
        writer.fact(key, value)
    writer.close()
    with served(tmp_path) as address, visit(chromium, address) as book:
        page = book.page
        page.locator(".runs .badge").first.wait_for()
        page.locator(".runs a").first.click()
        page.locator(".finding").first.wait_for(timeout=90_000)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        page.locator(".plot[data-drawn]").first.wait_for(timeout=90_000)
        page.locator(".card.wide .plot").first.scroll_into_view_if_needed()
        page.locator(".card.wide .plot[data-drawn]").first.wait_for(timeout=90_000)
        book.clean()
        assert (
            page.evaluate(
                "document.querySelectorAll('main iframe, main object, main embed, main form, main base, main img').length"
            )
            == 0
        )
        assert not [
            a for a in page.locator("main a").evaluate_all("n => n.map(a => a.getAttribute('href') || '')") if "evil" in a
        ]
