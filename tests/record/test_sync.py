"""`traindx run --sync ADDRESS`: the record is at the address when the program has ended, and is diagnosed from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from traindx import importers
from traindx.record import read

SCRIPT = """
import torch
net = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(40):
    x = torch.randn(8, 4)
    loss = torch.nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.slow
def test_what_is_written_here_is_there_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    far = (tmp_path / "far" / "exp1").as_uri()
    words = [sys.executable, "-m", "traindx", "run", "-q", "--dir", str(tmp_path / "here"), "--sync", far, "train.py"]
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr[-2000:]
    (run,) = importers.read(far)
    assert run.source == far and run.fact("ended") == "closed"
    assert run.series("loss/train").values.tolist() == read(tmp_path / "here").series("loss/train").values.tolist()
