"""A real five-step fastai fit records what a watch records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from integrations.fits import ALWAYS, lacking, numbers, observed

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]


def train(folder: Path, *callbacks: Any) -> Any:
    """Five steps of eight, then a validation."""
    from fastai.callback.progress import ProgressCallback
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import SGD

    x, y = numbers()
    data = list(zip(x, y))
    torch.manual_seed(1)
    loaders = DataLoaders(DataLoader(data, bs=8), DataLoader(data, bs=20))
    learn = Learner(loaders, nn.Linear(3, 1), nn.MSELoss(), opt_func=SGD, lr=0.1, cbs=list(callbacks), path=folder)
    learn.remove_cb(ProgressCallback)
    learn.fit(1)
    return learn


def test_five_steps_and_a_validation_are_recorded(tmp_path: Path) -> None:
    from traindx.integrations.fastai import Traindx

    callback = Traindx(dir=tmp_path / "record", budget=None)
    learn = train(tmp_path, callback)
    run = callback.dx.run()
    assert len(run.series("loss/train")) == 5 and all(s in run.signals for s in ALWAYS)
    assert lacking(run, tmp_path / "plain") == []
    assert run.series("loss/val").values.tolist() == pytest.approx([learn.recorder.values[0][1]], rel=1e-4)
    assert run.series("lr").values.tolist() == pytest.approx([0.1] * 5)
    assert callback.diagnosis.verdict and not callback.dx.open


def test_weights_are_the_same_with_and_without_the_callback(tmp_path: Path) -> None:
    from traindx.integrations.fastai import Traindx

    with_, without = train(tmp_path, Traindx(dir=tmp_path / "record")), train(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(with_.model.parameters(), without.model.parameters()))


def test_traindx_run_sees_it(tmp_path: Path) -> None:
    run = observed("from pathlib import Path\nfrom integrations.test_fastai import train\ntrain(Path('.'))\n", tmp_path)
    assert len(run.series("loss/train")) == 5 and len(run.series("loss/val")) == 1
