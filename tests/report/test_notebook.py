"""In a notebook: the diagnosis and the run show themselves, the live cell renews itself, nothing stacks."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

import numpy as np
import pytest

from patience import until
from runs import a_run, learning
from traindx.diagnosis import diagnose
from traindx.report import notebook
from traindx.run import Run

SICK = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])


def test_a_diagnosis_and_a_run_show_themselves_without_scripts() -> None:
    for shown in (diagnose(SICK)._repr_html_(), SICK._repr_html_()):
        assert "<svg" in shown and "@scope (.traindx)" in shown and "<script" not in shown


def test_nothing_of_a_log_is_obeyed() -> None:
    evil = Run.of(
        {"loss/train": learning(50), "metric/val/<img src=x onerror=alert(1)>": [1.0, 2.0]}, source="<script>alert(1)</script>"
    )
    for shown in (diagnose(evil)._repr_html_(), evil._repr_html_()):
        assert "<script>" not in shown and "<img" not in shown


class Handle:
    """What IPython gives for a display that can be renewed."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def update(self, page: str) -> None:
        self.pages.append(page)


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    made: list[Handle] = []

    def display(page: Any, display_id: bool) -> Handle:
        made.append(Handle())
        return made[-1]

    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    module.display, module.HTML = display, str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return made


def test_running_the_cell_again_replaces_the_old_one(handles: list[Handle]) -> None:
    d = diagnose(SICK)
    old = notebook.Live(lambda: d, every=0.01).start()
    new = notebook.Live(lambda: d, every=0.01).start()
    assert until(lambda: handles[1].pages)
    assert old._ended.is_set()
    still = len(handles[0].pages)
    time.sleep(0.05)
    assert len(handles[0].pages) == still
    new.stop()


def test_a_picture_that_cannot_be_made_does_not_end_the_cell(handles: list[Handle]) -> None:
    def broken() -> Any:
        raise OSError("disk")

    cell = notebook.Live(broken, every=0.01).start()
    assert until(lambda: len(handles[0].pages) >= 2)
    cell.stop()
    assert "No picture this time" in handles[0].pages[-1]


def test_outside_a_notebook_a_line_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = types.ModuleType("IPython.display")
    module.display, module.HTML = lambda page, display_id: None, str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    cell = notebook.Live(lambda: diagnose(SICK), every=0.01, name="outside").start()
    assert "shows itself in a notebook only" in capsys.readouterr().err
    assert not any(t.name == "traindx-live" and t.is_alive() for t in threading.enumerate())
    cell.stop()
