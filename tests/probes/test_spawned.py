"""Processes that a program starts: helpers leave no trace, forked ones are told about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import torch, torch.multiprocessing as mp

def train(rank=0):
    net = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        opt.zero_grad()
        net(torch.randn(4, 2)).pow(2).mean().backward()
        opt.step()

if __name__ == "__main__":
    if sys.argv[1] == "start":
        mp.start_processes(train, nprocs=1, start_method="fork")
    else:
        process = mp.get_context(sys.argv[1]).Process(target=train)
        process.start()
        process.join()
        sys.exit(process.exitcode)
"""


@pytest.mark.parametrize(("how", "told"), [("spawn", False), ("fork", True), ("start", True)])
def test_a_process_that_joins_no_group_is_no_rank(how: str, told: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "traindx", "run", "--dir", "r", "train.py", how]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert "saw no training" in done.stderr and ("forked processes cannot be observed" in done.stderr) is told
    assert not (tmp_path / "r").exists()
