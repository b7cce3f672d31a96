"""The assertions for test suites, and the pytest plugin that offers them."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import traindx
from traindx import testing

INSIDE = """
import pytest, torch
from torch import nn

def train(steps, lr):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    yield model, optimizer
    for _ in range(steps):
        x = torch.randn(16, 3)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    yield

def test_healthy(traindx_watch, assert_healthy, tmp_path):
    loop = train(60, 0.05)
    dx = traindx_watch(*next(loop))
    next(loop)
    assert_healthy(dx, ignore=("PERF",))
    assert dx.dir.is_relative_to(tmp_path)

def test_sick(traindx_watch, assert_healthy):
    loop = train(60, 50.0)
    dx = traindx_watch(*next(loop))
    next(loop)
    with pytest.raises(AssertionError, match="LOSS|NUMR|GRAD|OPTM"):
        assert_healthy(dx)

def test_task(assert_trainable):
    import traindx
    model = nn.Linear(3, 1)
    batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(8, 16, 3)]
    task = traindx.Task(model, nn.functional.mse_loss, batches, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
    assert assert_trainable(task, level="quick").items
"""


def test_the_plugin_offers_its_fixtures_in_a_project_of_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "test_inside.py").write_text(INSIDE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "traindx.testing.plugin", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "3 passed" in done.stdout


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    heavy = ("torch", "scipy", "numpy", "plotly", "rich.table")
    code = f"import sys, traindx.testing.plugin; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900)
    assert done.stdout.strip() == "[]"


def test_the_example_in_its_documentation_holds() -> None:
    assert doctest.testmod(testing).failed == 0


def test_findings_fail_with_the_page_unless_ignored() -> None:
    sick = {"loss/train": np.r_[np.linspace(1, 0.5, 80), np.full(20, np.nan)]}
    with pytest.raises(AssertionError, match="NUMR") as failure:
        testing.assert_healthy(sick)
    assert "Evidence" in str(failure.value)
    diagnosis = traindx.diagnose(sick)
    families = tuple({f.code[:4] for f in diagnosis.findings})
    assert testing.assert_healthy(diagnosis, ignore=families) is diagnosis


def test_a_task_that_cannot_learn_fails_with_what_to_do() -> None:
    class Cut(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).detach() + 0 * self.bias

    batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(8, 16, 3)]
    model = Cut(3, 1)
    task = traindx.Task(model, nn.functional.mse_loss, batches, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
    with pytest.raises(AssertionError, match=": "):
        testing.assert_trainable(task, level="quick")
