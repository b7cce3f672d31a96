"""What a coding agent needs in the JSON: the run's command, the next command, and the user's own lines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from runs import a_run, learning
from traindx import api
from traindx.diagnosis import diagnose
from traindx.record import sources
from traindx.report.issues import next_command
from traindx.report.json import SCHEMA, report

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        out = self.b(torch.relu(self.a(x)))
        return torch.softmax(out, dim=1)
"""
TRAIN = """
import torch
from model import Net
torch.manual_seed(0); torch.set_num_threads(1)
x = torch.randn(256, 16); y = (x @ torch.randn(16, 4)).argmax(1)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.CrossEntropyLoss()
for step in range(60):
    api_key = "correct horse battery staple"
    loss = criterion(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    command = [sys.executable, "-m", "traindx", "run", "--quiet", "--dir", "rec", "train.py", "--token", "s3cret"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=200)
    return folder


def test_the_run_says_how_it_was_started(project: Path) -> None:
    told = report(api.diagnose(project / "rec"))
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told["run"]["command"] == ["train.py", "--token", "***"] and told["run"]["folder"] == str(project)
    assert {"python", "torch"} <= set(told["run"]["versions"])


def test_a_finding_stands_at_the_operation_and_shows_its_source(project: Path) -> None:
    (found,) = [f for f in report(api.diagnose(project / "rec"))["findings"] if f["code"] == "WIRE006"]
    first, call, made = found["sites"]
    assert first["file"].endswith("model.py") and first["line"] == 12 and "torch.softmax(out, dim=1)" in first["source"]
    assert call["file"].endswith("train.py") and "criterion(model(x), y)" in call["source"]
    assert made["line"] == 6 and "model = Net()" in made["source"]  # where the model comes from
    assert "battery" not in json.dumps(found) and len(call["source"].splitlines()) <= 5


def test_the_source_is_shown_where_the_folder_of_runs_is_named(project: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(project / "rec", tmp_path / name)
    for run in api.load(tmp_path):
        (found,) = [f for f in report(api.diagnose(run))["findings"] if f["code"] == "WIRE006"]
        assert "torch.softmax" in found["sites"][0]["source"]


def test_no_source_is_read_from_a_path_that_a_record_names(project: Path, tmp_path: Path) -> None:
    for text in ("model.py", "train.py"):
        (project / text).write_text("nothing like it\n" * 40, encoding="utf-8")
    told = json.dumps(report(api.diagnose(project / "rec"))["findings"])
    assert "nothing like it" not in told and "torch.softmax" in told
    (project / "rec" / sources.FILE).write_text('{"/etc/passwd": "x", "a.py:1": 7, "b.py:2": "kept"}', encoding="utf-8")
    assert sources.kept(project / "rec") == {"b.py:2": "kept"}
    assert sources.take([f"{tmp_path}/evil.py:1", "/etc/passwd:1"], str, lambda text: False) == {}


def test_next_is_a_verb_of_ours_that_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    sick = learning(400)
    sick[200:] *= 40
    outside = tmp_path.parent / "outside.py"
    outside.write_text("", encoding="utf-8")
    for script, named in (("train.py", True), (str(outside), False), ("rm -rf .py", False), ("gone.py", False)):
        told = next_command(diagnose(a_run(loss__train=sick, facts={"script": script, "argv": ["sh", "-c", "boom"]})))
        assert told is not None and told[0] == "traindx" and told[1] in ("trial", "explain"), told
        assert ("./train.py" in told) is (named and told[1] == "trial") and "boom" not in told
    assert next_command(diagnose(a_run(loss__train=learning(400)))) is None
