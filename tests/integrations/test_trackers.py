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


@pytest.mark.parametrize("tracker", [tensorboard, wandb, mlflow, trackio])
def test_what_is_seen_is_shown_in_the_tracker(tracker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.integrations.mirror import mirror

    for name, value in (("MLFLOW_ALLOW_FILE_STORE", "true"), ("TRACKIO_DIR", str(tmp_path / "t")), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tracker(tmp_path / "tracked") as log:
        to = str(tmp_path / "tracked") if tracker is tensorboard else True
        with traindx.watch(model, optimizer, dir=tmp_path / "record", budget=None) as dx:
            shown = mirror(dx, to, every=1)
            for step in range(5):
                model(torch.ones(2, 2)).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                log("mine", float(step), step)
        log("mine", 5.0, 5)
    assert shown.troubles == []
    assert "metric/other/traindx/loss/train" not in dx.run().signals, "what we send is not heard again"
    kept = importlib.import_module("trackio.utils").TRACKIO_DIR if tracker is trackio else tmp_path / "tracked"
    runs = traindx.load(Path(kept))
    names = {name for run in runs for name in (*run.signals, *(run.fact("columns") or {}))}
    assert any("traindx" in n and "loss" in n for n in names), names
    assert any("grad_norm" in n and "weight" in n for n in names), names
    assert any("findings" in n for n in names), names
    assert any("mine" in n for n in names), names


def test_without_an_active_run_it_says_so(tmp_path: Path) -> None:
    from traindx.errors import UsageError
    from traindx.integrations.mirror import targets

    with pytest.raises(UsageError, match="active run"):
        targets(True)
    with pytest.raises(UsageError, match="not to int"):
        targets(3)


def test_the_logger_writes_to_both_and_leaves_the_model_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.kit import TrainingLogger

    monkeypatch.setenv("WANDB_SILENT", "true")
    module = importlib.import_module("wandb")
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(72, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 1, 8, 8)
    with TrainingLogger(tmp_path / "tb", wandb=module.init(mode="offline", project="p", dir=str(tmp_path))) as logger:
        for step in range(2):
            model(x).sum().backward()
            logger.scalars({"loss": torch.tensor(1.0), "score": 0.5}, step)
            logger.gradients(model, step)
            logger.rates(optimizer, step)
            logger.weights(model, step)
            logger.activations(model, x, step)
            logger.batch(x, torch.tensor([0, 1, 0, 1]), step)
            logger.batch(x.flatten(1), ["a", "b", "c", "d"], step, name="rows")
    assert model.training and model[2].training and not any(m._forward_hooks for m in model.modules())
    (board,) = traindx.load(tmp_path / "tb")
    assert any("grad_norm" in n for n in board.signals)
    (offline,) = traindx.load(tmp_path / "wandb")
    assert any("score" in n for n in offline.signals)
