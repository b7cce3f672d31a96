"""A real skorch fit records what a watch records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from integrations.fits import ALWAYS, lacking, numbers, observed

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]


def train(*callbacks: Any) -> Any:
    """Four batches of eight a pass and one for validation, two passes."""
    from skorch import NeuralNetRegressor

    x, y = numbers()
    net = NeuralNetRegressor(
        nn.Linear, module__in_features=3, module__out_features=1, max_epochs=2, lr=0.1, batch_size=8, verbose=0,
        callbacks=list(callbacks),
    )  # fmt: skip
    return net.fit(x, y)


def test_every_step_and_validation_is_recorded(tmp_path: Path) -> None:
    from traindx.integrations.skorch import Traindx

    net = train(("traindx", Traindx({"dir": tmp_path / "record", "budget": None})))
    callback = dict(net.callbacks_)["traindx"]
    run = callback.run()
    assert len(run.series("loss/train")) == 8 and all(s in run.signals for s in ALWAYS)
    assert lacking(run, tmp_path / "plain") == []
    assert run.series("loss/val").values.tolist() == pytest.approx(net.history[:, "valid_loss"], rel=1e-4)
    assert run.series("metric/val/valid_loss").values.tolist() == pytest.approx(net.history[:, "valid_loss"])
    assert callback.diagnosis.verdict and not callback.dx.open


def test_the_callback_can_be_cloned_as_scikit_learn_does() -> None:
    from sklearn.base import clone
    from skorch import NeuralNetRegressor

    from traindx.integrations.skorch import Traindx

    clone(NeuralNetRegressor(nn.Linear, callbacks=[Traindx({"budget": 0.02})]))


def test_traindx_run_sees_it_with_its_metrics(tmp_path: Path) -> None:
    run = observed("from integrations.test_skorch import train\ntrain()\n", tmp_path)
    assert len(run.series("loss/train")) == 8 and len(run.series("loss/val")) == 2
    assert len(run.series("metric/val/valid_loss")) == 2
