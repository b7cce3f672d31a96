"""`traindx check train.py` and `traindx trial NAME train.py` on scripts as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(400, 8)
y = (x[:, 0] + x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2){tail})
optimizer = torch.optim.Adam(model.parameters(), lr=float(sys.argv[1]))
for epoch in range(20):
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        print("step", loss.item())
        torch.save(model.state_dict(), "model.pt")
"""


def traindx(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "traindx", *args], cwd=cwd, capture_output=True, text=True, timeout=900, check=False, env=env
    )


def script(folder: Path, tail: str = "") -> str:
    (folder / "train.py").write_text(SCRIPT.replace("{tail}", tail), encoding="utf-8")
    return "train.py"


def test_a_trial_answers_in_json_and_writes_its_record_alone(tmp_path: Path) -> None:
    done = traindx("trial", "overfit", script(tmp_path), "--format", "json", "--", "0.01", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == "traindx.trial/1" and answer["result"] == "pass"
    assert {"initial", "final", "floor", "floor_name"} <= set(answer["answer"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py", "traindx-runs"]  # its record, and no checkpoint
    assert (tmp_path / answer["record"] / "run.json").is_file()


def test_the_preflight_names_a_softmax_before_cross_entropy(tmp_path: Path) -> None:
    done = traindx("check", script(tmp_path, ", nn.Softmax(1)"), "--quick", "--format", "json", "--", "0.01", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    items = json.loads(done.stdout)["items"]
    assert any(i["result"] == "fail" and "WIRE006" in i["message"] for i in items)


def test_a_script_that_fails_is_an_answer_with_its_line(tmp_path: Path) -> None:
    done = traindx("check", script(tmp_path, ", nn.Linear(3, 2)"), "--quick", "--format", "json", "--", "0.01", cwd=tmp_path)
    first, *rest = json.loads(done.stdout)["items"]
    assert first["result"] == "fail" and "does not fit" in first["message"] and "train.py:14" in first["message"]
    assert {i["result"] for i in rest} == {"cannot-tell"}


def test_a_script_without_training_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')", encoding="utf-8")
    done = traindx("trial", "overfit", "train.py", cwd=tmp_path)
    assert done.returncode == 2 and "ended after 0 optimizer steps" in done.stderr
