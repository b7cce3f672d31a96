"""A real five-step ignite run records what a watch records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from integrations.fits import ALWAYS, lacking, numbers, observed

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]


def train(attach: Any = None, break_at: int | None = None) -> Any:
    """Five steps, then a validation."""
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.metrics import Loss

    x, y = numbers()
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(engine: Any, batch: Any) -> float:
        if engine.state.iteration == break_at:
            raise ZeroDivisionError("in the middle")
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(update)
    evaluator = create_supervised_evaluator(model, metrics={"error": Loss(nn.MSELoss())})
    batches = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8)]
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: evaluator.run(batches))
    callback = attach(trainer, model, optimizer, evaluator) if attach else None
    trainer.run(batches, max_epochs=1)
    return callback, evaluator.state.metrics["error"]


def test_five_steps_and_a_validation_are_recorded(tmp_path: Path) -> None:
    from traindx.integrations.ignite import Traindx

    def attach(trainer: Any, model: Any, optimizer: Any, evaluator: Any) -> Any:
        return Traindx(trainer, model, optimizer, evaluators=evaluator, dir=tmp_path / "record", budget=None)

    callback, error = train(attach)
    run = callback.run()
    assert len(run.series("loss/train")) == 5 and all(s in run.signals for s in ALWAYS)
    assert lacking(run, tmp_path / "plain") == []
    assert run.series("loss/val").values.tolist() == pytest.approx([error], rel=1e-5)
    assert run.series("metric/val/error").values.tolist() == pytest.approx([error], rel=1e-5)
    assert callback.diagnosis.verdict and not callback.dx.open


def test_an_error_in_the_loop_reaches_the_user_and_the_record(tmp_path: Path) -> None:
    from traindx.integrations.ignite import Traindx

    made: list[Any] = []

    def attach(trainer: Any, model: Any, optimizer: Any, evaluator: Any) -> Any:
        made.append(Traindx(trainer, model, optimizer, dir=tmp_path / "record"))
        return made[0]

    with pytest.raises(ZeroDivisionError):
        train(attach, break_at=4)
    assert made[0].run().fact("exception")["type"] == "ZeroDivisionError" and not made[0].dx.open


def test_traindx_run_sees_the_loop_and_the_metrics_of_the_evaluator(tmp_path: Path) -> None:
    run = observed("from integrations.test_ignite import train\ntrain()\n", tmp_path)
    assert len(run.series("loss/train")) == 5 and len(run.series("loss/val")) == 1
    assert run.series("metric/val/error").values[-1] == pytest.approx(run.series("loss/val").values[-1], rel=1e-5)
