"""`traindx top` shows each run's state, step, loss, verdict and worst finding."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from runs import learning
from traindx.cli import top
from traindx.dashboard.library import Library
from traindx.errors import UsageError
from traindx.record import Writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _record(tmp_path / "monday", learning(600))
    _record(tmp_path / "tuesday", np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    return tmp_path


def _record(path: Path, losses: np.ndarray) -> None:
    writer = Writer(path, name=path.name)
    for step, loss in enumerate(losses):
        writer.write(step, {"loss/train": float(loss)})
    writer.close()


def look(folder: Path, *, every: float = 0.5, once: bool = True) -> int:
    assert top.command.callback is not None
    code: int = top.command.callback(folder, every=every, most=20, once=once, no_color=True, debug=False)
    return code


def test_one_frame_has_a_line_per_run_and_names_the_sick_one(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert look(folder) == 0
    shown = capsys.readouterr().out
    assert "2 runs, 0 running" in shown
    sick, well = (
        next(line for line in shown.splitlines() if name in line and "·" not in line) for name in ("tuesday", "monday")
    )
    assert "LOSS001" in sick and "499" in sick
    assert "599" in well and "LOSS" not in well


def test_a_terminal_without_unicode_gets_plain_bars(folder: Path) -> None:
    screen = Console(file=io.StringIO(), width=160)
    screen.print(top.frame(Library(folder), ascii_only=True))
    assert isinstance(screen.file, io.StringIO)
    assert not set("▁▂▃▄▅▆▇█") & set(screen.file.getvalue())


def test_ctrl_c_leaves_the_live_view_with_exit_0(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", sleep)
    assert look(folder, once=False) == 0
    assert looks == [0.5, 0.5]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        look(tmp_path / "none")
