"""A real five-step Lightning fit records what a watch records."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import traindx

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]
L: Any = (
    importlib.import_module(os.environ.get("TRAINDX_LIGHTNING", "lightning.pytorch"))
    if importlib.util.find_spec("lightning")
    else None
)


def fit(folder: Path, *callbacks: Any, break_at: int | None = None, lr: float = 0.1) -> Any:
    """Five steps on a line, evaluated at the end of the epoch."""

    class Line(L.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 1)

        def training_step(self, batch: Any, i: int) -> Any:
            if i == break_at:
                raise ZeroDivisionError("in the fourth batch")
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.log("seen", float(i))
            return loss

        def validation_step(self, batch: Any, i: int) -> None:
            self.log("val_error", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=lr)

    torch.manual_seed(0)
    train, val = (torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)) for x in torch.randn(2, 40, 3))
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, gradient_clip_val=0.01, default_root_dir=folder, callbacks=list(callbacks),
    )  # fmt: skip
    trainer.fit(Line(), torch.utils.data.DataLoader(train, 8), torch.utils.data.DataLoader(val, 20))
    return trainer


def test_five_steps_are_recorded_with_loss_validation_and_unclipped_gradients(tmp_path: Path) -> None:
    from traindx.integrations.lightning import Traindx

    callback = Traindx(dir=tmp_path / "record", budget=None)
    trainer = fit(tmp_path, callback)
    run = callback.run()
    assert len(run.series("loss/train")) == trainer.global_step == 5
    assert len(run.series("loss/val")) == 1, "the sanity check is no evaluation"
    assert run.series("loss/val").values[0] == pytest.approx(float(trainer.callback_metrics["val_error"]), rel=1e-5)
    assert run.series("metric/val/val_error").values[-1] == pytest.approx(
        float(trainer.callback_metrics["val_error"]), rel=1e-5
    )
    assert run.series("metric/train/seen").values[-1] == 4.0
    assert run.series("lr").values[-1] == pytest.approx(0.1)
    assert (run.series("clip/norm").values > 0.1).all(), "before the clipping to 0.01"
    assert callback.diagnosis.verdict


def test_weights_are_the_same_with_and_without_the_callback(tmp_path: Path) -> None:
    from traindx.integrations.lightning import Traindx

    with_, without = fit(tmp_path, Traindx(dir=tmp_path / "record")), fit(tmp_path)
    for a, b in zip(with_.model.parameters(), without.model.parameters()):
        assert torch.equal(a, b)


def test_a_fit_that_raises_closes_the_record_and_names_the_error(tmp_path: Path) -> None:
    from traindx.integrations.lightning import Traindx

    callback = Traindx(dir=tmp_path / "record")
    with pytest.raises(ZeroDivisionError):
        fit(tmp_path, callback, break_at=3)
    assert not callback.dx.open
    assert callback.run().fact("exception")["type"] == "ZeroDivisionError"
    assert len(callback.run().series("loss/train")) == 3


def test_the_entry_point_attaches_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = ("lightning.pytorch.callbacks_factory", "pytorch_lightning.callbacks_factory")
    for group in groups:
        (point,) = [p for p in importlib.metadata.entry_points(group=group) if p.name == "traindx"]
        assert point.load()() == []
    monkeypatch.setenv("TRAINDX", "1")
    monkeypatch.setenv("TRAINDX_DIR", str(tmp_path / "runs"))
    trainer = fit(tmp_path)
    (callback,) = [c for c in trainer.callbacks if type(c).__module__ == "traindx.integrations.lightning"]
    assert np.isfinite(callback.run().series("loss/train").values).all()
    assert len(callback.run().series("loss/train")) == 5


def test_the_same_holds_for_pytorch_lightning() -> None:
    inner = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "five_steps or raises", __file__],
        env={**os.environ, "TRAINDX_LIGHTNING": "pytorch_lightning"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert inner.returncode == 0, inner.stdout


def test_traindx_run_sees_a_lightning_script_without_any_edit(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from integrations.test_lightning import fit\nfrom pathlib import Path\nfit(Path('.'))\n")
    folder = tmp_path / "record"
    done = subprocess.run(
        [sys.executable, "-m", "traindx", "run", "--dir", str(folder), str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    (run,) = traindx.load(folder)
    assert len(run.series("loss/train")) == 5
    assert len(run.series("loss/val")) == 1, "the sanity check is no evaluation"
    assert run.series("metric/val/val_error").values[-1] == pytest.approx(run.series("loss/val").values[-1], rel=1e-5)


def test_a_module_is_a_task_for_trials_and_the_preflight(tmp_path: Path) -> None:
    from traindx.trial import catalogue
    from traindx.trials.frameworks import from_lightning

    x = torch.randn(64, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 16)

    class Line(L.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 1)

        def training_step(self, batch: Any, i: int) -> Any:
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.log("train_loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5), "interval": "step"}]

        def val_dataloader(self) -> Any:
            return [loader]

    with pytest.raises(traindx.errors.UsageError, match="train_dataloader"):
        from_lightning(Line())
    task = from_lightning(Line(), loader)
    assert task.scheduler is not None and len(task.batches(9, "val")) == 4
    assert catalogue()["one-step"].run(task).result == "pass"
    assert not traindx.testing.assert_trainable(task, level="quick").failed
