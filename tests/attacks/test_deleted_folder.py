"""A current folder that was deleted under us (S22)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from traindx.cli import main


def test_a_log_is_diagnosed_from_a_folder_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.csv"
    log.write_text("step,loss\n" + "".join(f"{i},{2 / (i + 1)}\n" for i in range(40)))
    before, gone = Path.cwd(), tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    try:
        gone.rmdir()
        with pytest.raises(SystemExit) as left:
            main(["diagnose", str(log)])
    finally:
        os.chdir(before)
    assert left.value.code in (0, None, 1), capsys.readouterr().err
