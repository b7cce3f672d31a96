"""What happens around a run while it trains: the clock goes back, the folder is deleted, processes and threads come and go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from traindx import api

STEPS = 60
TRAIN = """
import multiprocessing, os, shutil, sys, threading, time
import torch

def busy():
    torch.nn.Linear(3, 1)(torch.ones(2, 3)).sum().backward()

def clock():
    real = time.time
    time.time = lambda: real() - 10 * 86400

def folder():
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")

def forks():
    for code in (0, 7):
        pid = os.fork()
        if not pid:
            busy()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code

def spawns():
    child = multiprocessing.get_context("spawn").Process(target=busy)
    child.start(); child.join()
    assert child.exitcode == 0

def threads():
    all_ = [threading.Thread(target=busy) for _ in range(8)]
    [t.start() for t in all_]
    [t.join() for t in all_]

def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(STEPS):
        if step in (5, 45):  # a step that is looked at, and one that is skipped
            if step == 5 or sys.argv[1] != "folder":
                globals()[sys.argv[1]]()
        x = torch.randn(8, 3)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    print(loss.item().hex())
    sys.exit(3)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("what", ["clock", "folder", "forks", "spawns", "threads"])
def test_a_run_goes_on_and_is_recorded_whatever_happens_around_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace("STEPS", str(STEPS)))
    said = []
    for words in (["train.py"], ["-m", "traindx", "run", "-q", "--no-live", "--dir", "r", "train.py"]):
        done = subprocess.run([sys.executable, *words, what], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr[-2000:]
        said.append(done.stdout)
    assert said[0] == said[1]
    run = api.load(tmp_path / "r")[0]
    assert run.series("loss/train").steps.tolist() == list(range(STEPS))
    assert run.fact("ended") == "exit" and not [note for note in run.notes if "lost" in note or "damaged" in note]
