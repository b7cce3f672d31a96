"""What a script logs with its own tracker is heard, without an edit and without an import of ours."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(2, 2)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def trackio(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("trackio")
    module.heard = []  # type: ignore[attr-defined]
    module.log = lambda metrics, step=None: module.heard.append((metrics, step))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", module)
    return module


def test_metrics_get_the_phase_their_name_states_else_that_of_the_loop(observe: Callable[..., Any], trackio: Any) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    original = trackio.log
    with observe() as seen:
        for i in range(3):
            step(model, optimizer)
            trackio.log({"val/f1": 0.5 + i, "reward": torch.tensor(2.0), "epoch": i, "note": "text", "done": True}, step=i)
    logged = {name: s.values.tolist() for name, s in seen.run.matching("metric/*").items()}
    assert logged == {"metric/val/val/f1": [0.5, 1.5, 2.5], "metric/train/reward": [2.0, 2.0, 2.0]}
    assert trackio.heard[2][1] == 2 and len(trackio.heard) == 3, "the tracker got everything, once"
    assert trackio.log is original, "and is as it was"


def test_a_tracker_imported_after_attaching_is_heard_from_the_first_step_on(
    observe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    module: Any = types.ModuleType("mlflow")
    module.log_metric = lambda key, value, step=None: None
    module.log_metrics = lambda metrics, step=None: None
    with observe() as seen:
        monkeypatch.setitem(sys.modules, "mlflow", module)
        step(model, optimizer)
        module.log_metric("train_accuracy", value=0.25)
        module.log_metrics(metrics={"train_f1": 0.75}, step=4)
    logged = {name: s.values.tolist() for name, s in seen.run.matching("metric/*").items()}
    assert logged == {"metric/train/train_accuracy": [0.25], "metric/train/train_f1": [0.75]}


def test_wandb_is_heard_once_although_init_sets_its_log_anew(
    observe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Run:
        def log(self, data: dict[str, Any], step: int | None = None) -> None:
            pass

    wandb: Any = types.ModuleType("wandb")
    wandb.Run, wandb.log = Run, Run().log
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with observe() as seen:
        step(model, optimizer)
        wandb.log({"train/a": 1.0})
        wandb.log = Run().log  # as a second init does
        step(model, optimizer)
        wandb.log({"train/a": 2.0})
        step(model, optimizer)
        Run().log({"train/a": 3.0})
    assert seen.run.series("metric/train/train/a").values.tolist() == [1.0, 2.0, 3.0]
