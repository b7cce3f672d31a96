"""What a task makes of batches: the loss, samples put together, the toy version."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from traindx.trial import catalogue
from traindx.trials.task import Task
from trials.tasks import digits, mlp, task


def test_a_model_that_makes_its_own_loss_is_given_the_labels() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, pixels: torch.Tensor, labels: torch.Tensor | None = None) -> SimpleNamespace:
            logits = self.net(pixels)
            loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
            return SimpleNamespace(loss=loss, logits=logits)

    x, y = digits(96)
    model = Own()
    batches = [{"pixels": x[i : i + 32], "labels": y[i : i + 32]} for i in (0, 32, 64)]
    own = Task(model, train=batches, optimizer=torch.optim.Adam(model.parameters()))
    assert catalogue()["one-step"].run(own).result == "pass"


def test_samples_of_batches_padded_to_other_lengths_stay_with_their_labels() -> None:
    batches = [(torch.full((4, n), float(i)), torch.full((4,), i)) for i, n in enumerate((5, 3, 5, 7, 5))]
    padded = Task(mlp(), nn.CrossEntropyLoss(), batches)
    x, y = padded.samples(10)
    assert x.shape == (10, 5) and torch.equal(x[:, 0].long(), y)


def test_a_task_is_shrunk_to_a_toy_that_is_the_same_task() -> None:
    torch.manual_seed(0)
    whole = task(mlp())
    toy = whole.shrink(48)
    x, y = zip(*toy.train, strict=True)
    assert len(torch.cat(x)) == len(torch.cat(y)) == 48 and toy.model is whole.model and toy.val
    assert "(shrunk)" in toy.name and catalogue()["one-step"].run(toy).result == "pass"
    assert len(whole.batches(40)) == 15  # the whole one still has all of its data
