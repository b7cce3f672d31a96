"""A real five-step transformers fit records what a watch records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("default")]


class Line(nn.Module):
    """y = w·x with the loss in its output, as transformers wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.net(x)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


def train(folder: Path, *callbacks: Any, poison: bool = False, accumulate: int = 1) -> Any:
    """Five updates of eight samples each (times `accumulate`), evaluated once at the end."""
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    x = torch.randn(40 * accumulate, 3)
    y = x.sum(1, keepdim=True)
    if poison:
        y[16:24] = float("nan")
    rows = [{"x": a, "labels": b} for a, b in zip(x, y)]
    arguments = TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=8, per_device_eval_batch_size=20, num_train_epochs=1,
        learning_rate=0.1, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0.01, logging_steps=5, report_to="none",
        save_strategy="no", eval_strategy="epoch", use_cpu=True, disable_tqdm=True, gradient_accumulation_steps=accumulate,
        train_sampling_strategy="sequential", seed=0,
    )  # fmt: skip
    trainer = Trainer(Line(), arguments, train_dataset=rows, eval_dataset=list(rows), callbacks=list(callbacks))
    trainer.train()
    return trainer


def test_five_steps_are_recorded_with_per_step_loss_validation_and_unclipped_gradients(tmp_path: Path) -> None:
    from traindx.integrations.huggingface import Traindx

    callback = Traindx(dir=tmp_path / "record", budget=None)
    trainer = train(tmp_path, callback)
    run = callback.run()
    logged = trainer.state.log_history
    assert len(run.series("loss/train")) == trainer.state.global_step == 5
    assert run.series("loss/train").values.mean() == pytest.approx(logged[0]["loss"], rel=1e-3)
    assert len(run.series("loss/val")) == 1
    assert run.series("loss/val").values[0] == pytest.approx(logged[1]["eval_loss"], rel=1e-5)
    assert run.series("metric/val/eval_loss").values[0] == pytest.approx(logged[1]["eval_loss"])
    assert (run.series("clip/norm").values > 0.1).all(), "before the clipping to 0.01"
    assert len(run.series("metric/train/train_runtime")) == 0
    assert callback.diagnosis.verdict and not callback.dx.open


def test_weights_are_the_same_with_and_without_the_callback(tmp_path: Path) -> None:
    from traindx.integrations.huggingface import Traindx

    with_, without = train(tmp_path, Traindx(dir=tmp_path / "record")), train(tmp_path)
    for a, b in zip(with_.model.parameters(), without.model.parameters()):
        assert torch.equal(a, b)


def test_a_nan_that_the_log_of_transformers_hides_is_seen(tmp_path: Path) -> None:
    from traindx.integrations.huggingface import Traindx

    callback = Traindx(dir=tmp_path / "record")
    trainer = train(tmp_path, callback, poison=True)
    assert np.isfinite(trainer.state.log_history[0]["loss"])
    assert np.isnan(callback.run().series("loss/train").values[2])
    assert any(f.code.startswith("NUMR") for f in callback.diagnosis.findings)


def test_accumulated_micro_batches_are_one_step(tmp_path: Path) -> None:
    from traindx.integrations.huggingface import Traindx

    callback = Traindx(dir=tmp_path / "record")
    trainer = train(tmp_path, callback, accumulate=2)
    run = callback.run()
    assert len(run.series("loss/train")) == trainer.state.global_step == 5
    assert run.series("loss/train").values.mean() == pytest.approx(trainer.state.log_history[0]["loss"], rel=1e-3)


def test_a_trainer_is_a_task_for_trials_and_the_preflight(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from traindx.testing import assert_trainable
    from traindx.trial import catalogue
    from traindx.trials.frameworks import from_trainer

    torch.manual_seed(0)
    ids = torch.randint(5, 60, (160, 12))
    rows = [{"input_ids": i, "attention_mask": torch.ones_like(i), "labels": int(i[0] > 30)} for i in ids]
    config = BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=16, learning_rate=3e-3, report_to="none", use_cpu=True
    )
    task = from_trainer(Trainer(model, arguments, train_dataset=rows[:128], eval_dataset=rows[128:]))
    assert task.val is not None and task.optimizer is not None
    assert catalogue()["one-step"].run(task).result == "pass"
    assert catalogue()["dependency"].run(task).result == "pass"
    assert not assert_trainable(task, level="quick").failed
