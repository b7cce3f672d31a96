"""The examples run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

import traindx

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_production_loop_learns_and_is_found_healthy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "production_loop.py"), "--steps", "260", "--out", str(tmp_path / "out")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "0 steps skipped" in done.stdout
    saved = torch.load(tmp_path / "out" / "best.pt", weights_only=True)
    assert {"model", "optimizer", "scheduler", "rng", "step"} <= set(saved)
    diagnosis = traindx.diagnose(tmp_path / "out" / "record")
    assert diagnosis.worst is None or diagnosis.worst.value == "info", str(diagnosis)
    assert len(diagnosis.run.series("loss/train")) == 260
    assert list((tmp_path / "out" / "tensorboard").glob("events.*"))


def test_what_the_command_line_does_is_done_in_python(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "in_python.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for told in (
        "healthy\n",
        "restart",
        "worse\n",
        "Best: slow (lr 0.01)",
        "loss/train: 2.3 to",
        str(tmp_path / "report.html"),
    ):
        assert told in done.stdout, told
    page = (EXAMPLES.parent / "docs" / "api.md").read_text(encoding="utf-8")
    assert 'traindx.sweep(home, by="val_acc")' in page
