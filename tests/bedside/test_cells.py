"""Notebooks in a real kernel: every cell that trains is a run, and places are cells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from traindx import record

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")

MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(1))
x = torch.randn(256, 8)
y = (x @ torch.randn(8, 3)).argmax(1)
"""
LOOP = """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print("trained")
"""
CLEAN = """from traindx.probes.drive.patches import PATCHES
print(PATCHES.observers, len(PATCHES._patches))
"""


def book(*cells: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])


def text(cell: Any) -> str:
    told = [str(o.get("text", "")) + str(o.get("data", {}).get("text/html", "")) for o in cell.outputs]
    return "".join(told) + "".join("\n".join(o.get("traceback", ())) for o in cell.outputs)


def test_cells_are_watched_shown_and_left_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TRAINDX_LIVE", "0")
    interrupted = LOOP.replace("step in range(40):", "step in range(40):\n    if step == 20: raise KeyboardInterrupt")
    cells = ["%load_ext traindx", MODEL, LOOP, interrupted, "%traindx", "%traindx off", CLEAN, LOOP, "%%traindx\n" + LOOP]
    made = book(*cells)
    nbclient.NotebookClient(made, timeout=200, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}).execute()
    loop, broken, again, clean, unwatched, one = (text(made.cells[i]) for i in (2, 3, 4, 6, 7, 8))
    assert "trained" in loop and "An activation is applied twice" in loop and "cell 3, line 3" in loop, loop
    assert "ipykernel" not in loop
    assert "KeyboardInterrupt" in broken and clean.startswith("() 0")
    assert "An activation" in again and "An activation" not in unwatched and "cell 9, line 4" in one, one
    runs = sorted((tmp_path / "traindx-runs").iterdir())
    assert [r.name.partition("-20")[0] for r in runs] == ["cell-3", "cell-4", "cell-9"]
    assert [len(record.read(r)["loss/train"]) for r in runs] == [40, 20, 40]


def test_a_notebook_runs_as_a_script_does(tmp_path: Path) -> None:
    nbformat.write(book(MODEL, LOOP, "raise SystemError('late')"), tmp_path / "nb.ipynb")
    line = [sys.executable, "-m", "traindx", "run", "--no-live", "nb.ipynb"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=env, timeout=280)
    assert done.returncode == 1 and done.stdout == "trained\n" and "SystemError" in done.stderr, done.stderr
    assert "cell 2, line 3" in done.stderr and "An activation is applied twice" in done.stderr
    [run] = (tmp_path / "traindx-runs").iterdir()
    assert run.name.startswith("nb-") and len(record.read(run)["loss/train"]) == 40
    copy = nbformat.read(tmp_path / "nb.run.ipynb", as_version=4)
    assert "trained" in text(copy.cells[1]) and not nbformat.read(tmp_path / "nb.ipynb", as_version=4).cells[1].outputs
