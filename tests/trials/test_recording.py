"""A trial leaves a record that ordinary rules read; Ctrl-C leaves none, and no process."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from patience import until
from traindx import api
from traindx.cli.trial import _asking
from traindx.trial import catalogue
from traindx.trials.recording import MOST, kept, recording
from trials.tasks import HEALTHY

FACTORY = """
import torch
from torch import nn
from traindx import Task

def make_task():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    x = torch.randn(320, 8)
    data = [(x[i : i + 32], (x[i : i + 32, 0] > 0).long()) for i in range(0, 320, 32)]
    return Task(model, nn.CrossEntropyLoss(), data, None, torch.optim.Adam(model.parameters()))
"""
LOOP = """
import torch, time
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    time.sleep(0.05)
"""


def test_a_sweep_is_recorded_as_a_run_that_rules_read(tmp_path: Path) -> None:
    with recording(tmp_path / "r") as records:
        result = catalogue()["lr-range"].run(HEALTHY["mlp"](), steps=40)
    assert records is not None and kept(result, records)
    place = records.written[0]
    [run] = api.load(place)
    assert len(run.series("loss/train")) >= 40 and run.series("lr").values[1] < run.series("lr").values[30]
    assert api.diagnose(place).outcomes


def test_arms_of_a_fork_are_recorded_side_by_side_and_not_all_of_them(tmp_path: Path) -> None:
    with recording(tmp_path / "r") as records:
        result = catalogue()["lr-tenth"].run(HEALTHY["mlp"](), orders=3, horizons=(12,))
    assert Path(kept(result, records)) == tmp_path / "r"
    assert len(list((tmp_path / "r").iterdir())) == MOST and len(api.load(tmp_path / "r")) == MOST


def test_what_makes_no_update_records_what_it_measured(tmp_path: Path) -> None:
    with recording(tmp_path / "r") as records:
        result = catalogue()["landscape"].run(HEALTHY["mlp"](), points=3, samples=64)
    [run] = api.load(Path(kept(result, records)))
    assert any(name.startswith("trial/") for name in run.signals)


def test_nothing_is_recorded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert catalogue()["lr-range"].run(HEALTHY["mlp"](), steps=40).record == "" and not list(tmp_path.iterdir())


class Screen:
    def rest(self) -> None:
        """As the bar does."""


def test_it_asks_before_a_long_trial_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("rich_click.confirm", lambda text, **more: bool(asked.append(text)))
    assert _asking(False, Screen())("…", 600.0) and not asked  # type: ignore[arg-type] # no terminal here
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    assert _asking(False, Screen())("…", 59.0) and _asking(True, Screen())("…", 600.0) and not asked  # type: ignore[arg-type]
    assert not _asking(False, Screen())("…", 61.0) and asked  # type: ignore[arg-type]


def _started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "traindx", *words], cwd=folder, env=env, stderr=subprocess.PIPE)


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_ctrl_c_ends_a_trial_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(FACTORY, encoding="utf-8")
    long = ("--set", "steps=1000000", "--set", "rates=[1e-9]")
    child = _started(tmp_path, "trial", "overfit", "task.py:make_task", *long)
    assert child.stderr is not None
    assert b"Ctrl-C" in child.stderr.readline()  # the cost is stated: it begins
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("__pycache__", "traindx-runs")] == ["task.py"]
    assert not list(tmp_path.glob("traindx-runs/*"))


@pytest.mark.slow
def test_ctrl_c_takes_the_script_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    child = _started(tmp_path, "trial", "overfit", "train.py")
    assert until(lambda: _family(child.pid))
    time.sleep(1.0)
    family = _family(child.pid)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert family and not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.slow
def test_a_long_trial_asks_in_a_terminal_and_no_means_no(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(FACTORY, encoding="utf-8")
    main, end = pty.openpty()
    words = ["trial", "overfit", "task.py:make_task", "--set", "steps=10000000", "--set", "rates=[1e-9]"]
    child = subprocess.Popen([sys.executable, "-m", "traindx", *words], cwd=tmp_path, stdin=end, stdout=end, stderr=end)
    os.close(end)
    said = b""
    while b"Begin?" not in said:
        said += os.read(main, 4096)
    os.write(main, b"n\n")
    while b"not begun" not in said:
        said += os.read(main, 4096)
    assert child.wait(60) == 0 and not (tmp_path / "traindx-runs").exists()
    os.close(main)


def test_the_answer_names_its_record(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(FACTORY, encoding="utf-8")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "traindx", "trial", "one-step", "task.py:make_task", "--format", "json"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=900)
    assert (tmp_path / json.loads(done.stdout)["record"]).is_dir()
