"""What a script logs with the real trackers, offline, is heard by the run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import traindx

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]
Log = Callable[[str, float, int], Any]


@contextmanager
def tensorboard(folder: Path) -> Iterator[Log]:
    with importlib.import_module("torch.utils.tensorboard").SummaryWriter(folder) as writer:
        yield lambda name, value, step: writer.add_scalar(name, value, step)


@contextmanager
def wandb(folder: Path) -> Iterator[Log]:
    module = importlib.import_module("wandb")
    module.init(mode="offline", project="p", dir=str(folder))
    yield lambda name, value, step: module.log({name: value}, step=step)
    module.finish()


@contextmanager
def mlflow(folder: Path) -> Iterator[Log]:
    module = importlib.import_module("mlflow")
    module.set_tracking_uri((folder / "mlruns").as_uri())
    with module.start_run():
        yield lambda name, value, step: module.log_metric(name, value, step=step)


@contextmanager
def trackio(folder: Path) -> Iterator[Log]:
    module = importlib.import_module("trackio")
    module.init(project="p", embed=False)
    yield lambda name, value, step: module.log({name: value}, step=step)
    module.finish()


@pytest.mark.parametrize("tracker", [tensorboard, wandb, mlflow, trackio])
def test_five_logged_values_are_in_the_run(tracker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MLFLOW_ALLOW_FILE_STORE", "true"), ("TRACKIO_DIR", str(tmp_path / "t")), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with traindx.watch(model, optimizer, dir=tmp_path / "record") as dx, tracker(tmp_path) as log:
        for step in range(5):
            model(torch.ones(2, 2)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            log("train/score", step / 4, step)
    assert dx.run().series("metric/train/train/score").values.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
