"""A real five-step accelerate loop records what a watch records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from integrations.fits import ALWAYS, lacking, numbers, observed

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]


def train(tracker: Any = None) -> None:
    """Five steps of eight."""
    from accelerate import Accelerator

    x, y = numbers()
    accelerator = Accelerator(cpu=True, log_with=tracker)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 8)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    accelerator.init_trackers("line", {"lr": 0.1, "note": "straight"})
    for step, (a, b) in enumerate(data):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"train_error": loss.item()}, step=step)
    accelerator.end_training()


def test_five_steps_are_recorded_with_what_was_logged(tmp_path: Path) -> None:
    from traindx.integrations.accelerate import Traindx

    tracker = Traindx(dir=tmp_path / "record", budget=None)
    train(tracker)
    run = tracker.run()
    assert len(run.series("loss/train")) == 5 and all(s in run.signals for s in ALWAYS)
    assert lacking(run, tmp_path / "plain") == []
    assert run.series("metric/train/train_error").values.tolist() == pytest.approx(run.series("loss/train").values.tolist())
    assert run.fact("hparams") == {"lr": 0.1, "note": "straight"}
    assert tracker.diagnosis.verdict and not tracker.dx.open


def test_traindx_run_hears_what_is_logged(tmp_path: Path) -> None:
    run = observed("from integrations.test_accelerate import train\ntrain()\n", tmp_path)
    assert len(run.series("loss/train")) == 5 and len(run.series("metric/train/train_error")) == 5
