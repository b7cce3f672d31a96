"""`traindx top` shows each run's state, step, loss, verdict and worst finding."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from runs import learning
from traindx.cli import cli, top
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
    code: int = top.command.callback(folder, every=every, most=20, once=once, plain=False)
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


def test_without_a_folder_top_and_mcp_look_where_runs_are_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDX_DIR", str(folder))
    shown = CliRunner().invoke(cli, ["top", "--once", "--no-color"])
    assert shown.exit_code == 0 and "monday" in shown.output and "tuesday" in shown.output
    served: list[Path] = []
    monkeypatch.setattr("traindx.mcp.serve", lambda root, trials: served.append(root))
    assert CliRunner().invoke(cli, ["mcp"]).exit_code == 0 and served == [folder]


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


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_gets_two_lines_a_run_and_nothing_is_cut_off_that_matters(folder: Path, width: int) -> None:
    screen = Console(file=io.StringIO(), width=width, no_color=True)
    screen.print(top.frame(Library(folder), width=width))
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("monday", "tuesday", "LOSS001", "599", "499"):
        assert word in shown


def test_a_pipe_gets_frames_without_escapes(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", sleep)
    assert look(folder, once=False) == 0
    assert "tuesday" in (shown := capsys.readouterr().out) and "\x1b" not in shown


def test_the_textual_view_lists_the_worst_first_and_shows_its_findings(folder: Path) -> None:
    import asyncio

    from textual.widgets import DataTable, Static

    from traindx.cli.top_app import Top

    async def play() -> None:
        app = Top(Library(folder), every=60)
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(200):
                await pilot.pause(0.05)
                if app.query_one(DataTable).row_count == 2:
                    break
            assert [e.name for e in app.shown] == ["tuesday", "monday"]
            await pilot.pause()
            screen = Console(file=io.StringIO(), width=110)
            screen.print(app.query_one("#page", Static).content)
            assert "LOSS001" in screen.file.getvalue()  # type: ignore[attr-defined]
            await pilot.press("j")
            assert app.query_one(DataTable).cursor_row == 1
            await pilot.press("slash")
            await pilot.press(*"mon")
            for _ in range(100):
                await pilot.pause(0.05)
                if app.query_one(DataTable).row_count == 1:
                    break
            assert [e.name for e in app.shown] == ["monday"]
            await pilot.press("escape")
            await pilot.press("q")

    asyncio.run(play())


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        look(tmp_path / "none")
