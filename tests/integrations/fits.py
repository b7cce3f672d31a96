"""What the tests of all frameworks share: a line to learn in five steps, and what a plain watch records of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import traindx

# what a five-step fit must hold, whoever runs the loop: everything else a watch records is compared by name below
ALWAYS = ("loss/train", "lr", "grad_norm", "grad_norm/param", "weight_norm/param", "update_ratio/param", "time/step")


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    """Forty samples of a plane."""
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    return x, x.sum(1, keepdim=True)


def watched(folder: Path) -> Any:
    """The same five steps in a plain loop under `watch`."""
    x, y = numbers()
    torch.manual_seed(1)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with traindx.watch(model, optimizer, dir=folder, budget=None) as dx:
        for i in range(0, 40, 8):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[i : i + 8]), y[i : i + 8]).backward()
            optimizer.step()
    return dx.run()


def lacking(run: Any, folder: Path) -> list[str]:
    """Signals of layers and steps that a plain watch records of this fit and `run` does not have."""
    kinds = ("loss/", "lr", "grad", "weight", "update", "time/step")
    plain = watched(folder)
    return [s for s in plain.signals if s.startswith(kinds) and s not in run.signals]


def observed(script: str, folder: Path, **env: str) -> Any:
    """The run that `traindx run` records of a script."""
    path = folder / "train.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "traindx", "run", "--budget", "none", "--dir", str(folder / "zero"), str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **env},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    (run,) = traindx.load(folder / "zero")
    return run
