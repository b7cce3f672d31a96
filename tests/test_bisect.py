"""`traindx bisect`: worktrees, resumable, flaky commits run again and never guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs import a_run, learning
from traindx.cli.bisect import Oracle, observed
from traindx.errors import UsageError
from traindx.finding import Severity
from traindx.run import Run

SCRIPT = """
import torch
torch.manual_seed(0); torch.set_num_threads(1)
x = torch.randn(256, 8); y = x.sum(1, keepdim=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
for step in range(120):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def git(folder: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for i, lr in enumerate(("0.05", "0.06", "50.0", "60.0")):
        (tmp_path / "train.py").write_text(SCRIPT.replace("LR", lr), encoding="utf-8")
        git(tmp_path, "add", "train.py")
        git(tmp_path, "commit", "-q", "-m", f"step {i} lr {lr}")
    return tmp_path


def test_names_the_commit_and_goes_on_where_it_stopped(history: Path) -> None:
    command = [sys.executable, "-m", "traindx", "bisect", "--good", "HEAD~3", "--repeat", "1", "--", "python", "train.py"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=history, capture_output=True, text=True, check=False, timeout=900, env=env)
    assert done.returncode == 0, done.stderr
    assert "step 2 lr 50.0" in done.stdout
    assert git(history, "status", "--porcelain") == "" and len(git(history, "worktree", "list").splitlines()) == 1
    records = history / ".git" / "traindx-bisect" / "records"
    before = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    again = subprocess.run(command, cwd=history, capture_output=True, text=True, check=False, timeout=900, env=env)
    assert "step 2 lr 50.0" in again.stdout
    assert {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")} == before  # nothing was run twice


class Scripted(Oracle):
    """An oracle whose runs are given."""

    given: list[Run | None]

    def _run(self, commit: str, index: int) -> Run | None:
        return self.given[index] if index < len(self.given) else None


def judged(*runs: Run | None, repeat: int = 2) -> str:
    oracle = Scripted(Path(), Path(), (), "loss", Severity.WARNING, repeat, [a_run(loss__train=learning(600))])
    oracle.given = list(runs)
    return oracle.judge("c")


GOOD, BAD = a_run(loss__train=learning(600)), a_run(loss__train=3 * learning(600) + 1)


def test_runs_that_agree_decide() -> None:
    assert judged(GOOD, GOOD) == "good" and judged(BAD, BAD) == "bad"


def test_runs_that_disagree_are_run_again_and_the_clear_majority_counts() -> None:
    assert judged(GOOD, BAD, GOOD, GOOD) == "good"


def test_a_flaky_commit_is_skipped_not_guessed() -> None:
    assert judged(GOOD, BAD, GOOD, BAD) == "skip"


def test_a_commit_that_does_not_run_is_skipped() -> None:
    assert judged(None, None) == "skip"


def test_only_python_is_observed() -> None:
    with pytest.raises(UsageError, match="python command"):
        observed(("make", "train"))


def test_losses_that_do_not_decide_skip_the_commit() -> None:
    few = a_run(loss__train=[2.0, 1.5])
    assert judged(few, few) == "skip"


@pytest.mark.parametrize("by", ["health", "loss"])
def test_no_commit_is_blamed_when_the_ends_cannot_be_told_apart(tmp_path: Path, by: str) -> None:
    git(tmp_path, "init", "-q")
    for i in range(4):
        (tmp_path / "train.py").write_text(SCRIPT.replace("LR", "0.05") + f"# {i}\n", encoding="utf-8")
        git(tmp_path, "add", "train.py")
        git(tmp_path, "commit", "-q", "-m", f"innocent {i}")
    command = [sys.executable, "-m", "traindx", "bisect", "--good", "HEAD~3", "--repeat", "1", "--by", by, "--strict", "--"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "python", "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900, env=env
    )
    assert done.returncode == 4 and "innocent" not in done.stdout and "do not differ clearly" in done.stdout, done.stderr
