"""Tasks from a LightningModule and a Trainer of transformers, on light stand-ins that have the same methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from traindx.errors import UsageError
from traindx.trial import catalogue
from traindx.trials.frameworks import from_lightning, from_trainer
from traindx.trials.target import task_from


def loader() -> DataLoader:
    torch.manual_seed(0)
    x = torch.randn(96, 6)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 16)


class Lit(nn.Module):
    """What a LightningModule looks like from outside."""

    def __init__(self, shape: str = "dict") -> None:
        super().__init__()
        self.net, self.shape = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)), shape

    def log(self, name: str, value: Any) -> None:
        raise RuntimeError("no trainer is attached")

    def training_step(self, batch: Any, index: int) -> Any:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return {"loss": loss} if self.shape == "dict" else loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        shapes: dict[str, Any] = {
            "dict": {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}},
            "pair": ([optimizer], [scheduler]),
            "plain": optimizer,
            "list": [optimizer],
        }
        return shapes[self.shape]

    def train_dataloader(self) -> DataLoader:
        return loader()


@pytest.mark.parametrize("shape", ["dict", "pair", "plain", "list"])
def test_a_lightning_module_can_be_tried(shape: str) -> None:
    module = Lit(shape)
    task = from_lightning(module)
    assert isinstance(task.optimizer, torch.optim.Adam) and (task.scheduler is not None) == (shape in ("dict", "pair"))
    assert catalogue()["one-step"].run(task).result == "pass"
    assert "log" not in vars(module)


def test_a_module_without_data_says_what_to_give() -> None:
    module = Lit()
    module.train_dataloader = lambda: None  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(UsageError, match="train_dataloader"):
        from_lightning(module)


class Fake:
    """What a Trainer of transformers looks like from outside."""

    eval_dataset = None
    optimizer = None

    def __init__(self) -> None:
        self.model = nn.Linear(6, 2)

    def compute_loss(self, model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(model(inputs["x"]), inputs["labels"])

    def get_train_dataloader(self) -> list[dict[str, torch.Tensor]]:
        return [{"x": x, "labels": y} for x, y in loader()]

    def create_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), 0.1)


def test_a_trainer_can_be_tried() -> None:
    assert catalogue()["one-step"].run(from_trainer(Fake())).result == "pass"


def test_a_factory_may_give_either(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(
        "from trials.test_frameworks import *\ndef lit(): return Lit(), loader()\ndef trainer(): return Fake()\n"
    )
    assert task_from(f"{tmp_path / 'fit.py'}:lit").name == "Lit"
    assert task_from(f"{tmp_path / 'fit.py'}:trainer").name == "Linear"
