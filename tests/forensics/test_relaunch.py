"""The step of a capsule is made again in the script's own loop, after the command was shown and agreed to."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from traindx.cli import cli
from traindx.cli.replay import _lines
from traindx.errors import UsageError
from traindx.forensics.capsule import Capsule, save
from traindx.forensics.command import recorded
from traindx.forensics.relaunch import Feed, like

SCRIPT = """
import sys, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    def forward(self, x):
        return torch.log(torch.softmax(self.body(x), 1))  # here
x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
x[40] *= 1e5
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=float(sys.argv[1]))
sched = torch.optim.lr_scheduler.StepLR(opt, 3)
for a, b in DataLoader(TensorDataset(x, y), batch_size=8):
    loss = F.nll_loss(net(a), b)
    opt.zero_grad(); loss.backward(); opt.step(); sched.step()
"""
LINE = next(i for i, line in enumerate(SCRIPT.splitlines(), 1) if "# here" in line)
HEAD = [sys.executable, "-m", "traindx"]


def _shell(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(
        [*HEAD, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
    )


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, and the record of its run with a capsule of its sixth step."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "train.py").write_text(SCRIPT)
    made = _shell(["run", "--dir", "record", "--capture-batch", "train.py", "0.01"], folder)
    assert made.returncode == 0, made.stderr
    assert "traindx replay record/capsules/capsule-000000005-000" in made.stderr
    return folder


def _capsule(folder: Path) -> str:
    (found,) = folder.glob("record/capsules/capsule-*")
    return str(found)


def test_a_capsule_without_its_batch_says_how_to_keep_it() -> None:
    found = {"step": 5, "precision": "fp32", "batch": "the script's own", "finite": True, "loss": 0.1, "origin": None}
    assert "--capture-batch" in "\n".join(_lines({**found, "origins": []}))
    assert "--capture-batch" not in "\n".join(_lines({**found, "origins": [], "batch": "the capsule's"}))


def test_the_recorded_script_is_run_again_and_breaks_at_the_same_place(broken: Path) -> None:
    made = _shell(
        ["replay", _capsule(broken), "--format", "json", "--reproducer", "alone.py", "--", "train.py", "0.01"], broken
    )
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert (found["step"], found["finite"], found["batch"]) == (5, False, "the capsule's")
    origin = found["origin"]
    assert (origin["op"], origin["line"], origin["proven"]) == ("log", LINE, True)
    alone = subprocess.run([sys.executable, "alone.py"], cwd=broken, capture_output=True, text=True, check=True, timeout=900)
    assert "inf comes from aten.log.default" in alone.stdout


@pytest.mark.slow
def test_another_batch_of_the_script_tells_data_from_state(broken: Path) -> None:
    made = _shell(["replay", _capsule(broken), "--other-batch", "2", "--lr-scale", "0.5", "--", "train.py", "0.01"], broken)
    assert made.returncode == 0, made.stderr
    assert "batch: number 2 of the script: loss and gradients are finite" in made.stdout
    assert "after the update with 0.5 × the learning rate the loss is" in made.stdout


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_nothing_is_run_that_you_did_not_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    path = save(Capsule(1, {"models": []}, None, {"command": ["train.py"], "folder": str(tmp_path)}), tmp_path)
    with pytest.raises(UsageError, match="name the program"):
        CliRunner().invoke(cli, ["replay", str(path)], standalone_mode=False, catch_exceptions=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, "does not say which script"),
        ({"command": ["train.py"], "folder": ".", "world_size": 4}, "4 ranks"),
        ({"command": "rm -rf x", "folder": "."}, "does not say which script"),
        ({"command": [["x"]], "folder": "."}, "does not say which script"),
    ],
)
def test_a_command_that_cannot_be_followed_is_refused(about: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = save(Capsule(1, {"models": []}, None, about), tmp_path)
    with pytest.raises(UsageError, match=why):
        recorded(path)


def test_what_was_kept_comes_in_the_scripts_own_types() -> None:
    pair = collections.namedtuple("pair", "x y")
    held = (torch.ones(2), torch.zeros(2))
    made = like(pair(torch.zeros(2), torch.zeros(2)), held)
    assert isinstance(made, pair) and made.x.sum() == 2
    mixed = like({"x": torch.zeros(1), "name": "a"}, {"x": torch.ones(1), "name": None})
    assert mixed["x"].item() == 1 and mixed["name"] == "a"
    assert like([1, 2], [3, 4]) == [3, 4]


def test_a_loader_that_ran_dry_still_gives_the_capsules_batch() -> None:
    feed = Feed([torch.ones(2)], None)
    stock = iter([[torch.zeros(2)]])
    assert feed._next(_Iterator(), lambda _: next(stock))[0].sum() == 0
    feed.due = True
    assert feed._next(_Iterator(), lambda _: next(stock))[0].sum() == 2
    assert feed.fed == "the capsule's"


def test_a_loader_whose_capsule_holds_no_batch_is_told_how_to_keep_it() -> None:
    feed = Feed(None, None)
    feed.due = True
    feed._next(_Iterator(), lambda _: [torch.zeros(2)])
    found = {"step": 5, "precision": "fp32", "batch": feed.fed, "finite": True, "loss": 0.1, "origin": None, "origins": []}
    assert "--capture-batch" in "\n".join(_lines(found))


class _Iterator:
    """Something that weak references can be made of."""
