"""A real five-step Keras fit on torch records what a watch records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from integrations.fits import ALWAYS, lacking, numbers, observed

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]
os.environ["KERAS_BACKEND"] = "torch"


def train(*callbacks: Any) -> Any:
    """Five steps of eight, then a validation."""
    import keras

    keras.utils.set_random_seed(0)
    x, y = (t.numpy() for t in numbers())
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, 8, epochs=1, verbose=0, validation_data=(x, y), shuffle=False, callbacks=list(callbacks))
    return model, history.history


def test_five_steps_and_a_validation_are_recorded(tmp_path: Path) -> None:
    from traindx.integrations.keras import Traindx

    callback = Traindx(dir=tmp_path / "record", budget=None)
    _, logs = train(callback)
    run = callback.run()
    assert len(run.series("loss/train")) == 5 and all(s in run.signals for s in ALWAYS)
    assert lacking(run, tmp_path / "plain") == ["loss/sample_var"], "Keras calls no loss function of torch"
    assert run.series("loss/train").values.mean() == pytest.approx(logs["loss"][0], rel=1e-4)
    assert run.series("loss/val").values.tolist() == pytest.approx(logs["val_loss"], rel=1e-5)
    assert run.series("lr").values.tolist() == pytest.approx([0.1] * 5)
    assert run.fact("optimizer.name") == "SGD"
    assert callback.diagnosis.verdict and not callback.dx.open


def test_weights_are_the_same_with_and_without_the_callback(tmp_path: Path) -> None:
    from traindx.integrations.keras import Traindx

    with_, without = train(Traindx(dir=tmp_path / "record"))[0], train()[0]
    assert all(np.array_equal(a, b) for a, b in zip(with_.get_weights(), without.get_weights()))


def test_traindx_run_sees_it_with_its_validation(tmp_path: Path) -> None:
    run = observed("from integrations.test_keras import train\ntrain()\n", tmp_path)
    assert len(run.series("loss/train")) == 5 and len(run.series("loss/val")) == 1
