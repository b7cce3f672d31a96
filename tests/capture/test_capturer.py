"""A loop that nobody changed becomes a Task whose steps are the loop's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from traindx.capture.capturer import Capturer
from traindx.forensics.recipe import CannotCapture
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach
from traindx.trial import catalogue
from traindx.trials.task import Task


def captured(loop: Callable[[], Any]) -> Task:
    recorder = Recorder(budget=None, probes=[])
    capturer = Capturer(busy=lambda: bool(recorder.busy))
    recorder.add(capturer)
    observer = attach(recorder)
    try:
        loop()
    finally:
        detach(observer)
    return capturer.task("loop")


def batches(count: int = 12) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(count, 16, 6)
    return [(b, (b[:, 0] > 0).long() + (b[:, 1] > 0).long()) for b in x]


def classifier(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 3))


def usual(model: nn.Module, loss: Callable[..., torch.Tensor] = lambda out, y: F.cross_entropy(out, y)) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_the_task_has_the_weights_of_the_start_and_every_batch() -> None:
    model = classifier()
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    task = captured(lambda: usual(model))
    assert len(task.train) == 12 and isinstance(task.loss_fn, nn.CrossEntropyLoss)
    for name, p in task.model.named_parameters():
        assert torch.equal(p, start[name])
    x, y = batches()[0]
    assert task.loss_of(task.model, task.train[0]).item() == F.cross_entropy(task.model(x), y).item()


def test_the_users_own_model_is_as_without_capture() -> None:
    watched, bare = classifier(0.3), classifier(0.3)
    torch.manual_seed(5)
    expected = usual(bare)
    seen: list[float] = []
    torch.manual_seed(5)
    captured(lambda: seen.extend(usual(watched)))
    assert seen == expected
    assert all(torch.equal(p, q) for p, q in zip(watched.parameters(), bare.parameters(), strict=True))


def test_experiments_run_on_it() -> None:
    task = captured(lambda: usual(classifier(0.2)))
    assert catalogue()["one-step"].run(task).result == "pass"
    found = catalogue()["overfit"].run(task, samples=8)
    assert found.result == "pass" and found.answer["accuracy"] == 1.0
    assert catalogue()["cached-batch"].run(task).answer == {"blind": True}


def test_several_modules_and_penalties_on_weights_are_one_step() -> None:
    up, down = nn.Linear(6, 8), nn.Linear(8, 3)

    def loop() -> None:
        optimizer = torch.optim.SGD([*up.parameters(), *down.parameters()], 0.1)
        for x, y in batches():
            hidden = torch.tanh(up(x))
            loss = F.cross_entropy(down(hidden), y) + 1e-3 * up.weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    task = captured(loop)
    before = up.weight.grad
    task.loss_of(task.model, task.train[0]).backward()
    assert before is up.weight.grad and all(p.grad is not None for p in task.model.parameters())


def test_sequences_flattened_for_the_loss_are_cut_by_sample() -> None:
    model = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 11))

    def loop() -> None:
        optimizer = torch.optim.Adam(model.parameters())
        for i in range(6):
            ids = torch.randint(0, 11, (8, 5), generator=torch.Generator().manual_seed(i))
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    task = captured(loop)
    assert catalogue()["overfit"].run(task, samples=4, steps=200).result == "pass"
    assert catalogue()["loss-at-init"].run(task).answer["expected_name"] == "ln 11"


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * grad


def test_a_loss_through_calls_that_are_not_seen_is_not_guessed() -> None:
    with pytest.raises(CannotCapture):
        captured(lambda: usual(classifier(), lambda out, y: F.cross_entropy(Double.apply(out), y)))


def test_a_step_that_comes_out_otherwise_is_not_believed() -> None:
    count = iter(range(1000))

    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = classifier()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) * (1 + next(count))

    with pytest.raises(CannotCapture, match="another loss"):
        captured(lambda: usual(Moody()))


def test_no_step_is_said() -> None:
    with pytest.raises(CannotCapture, match="no optimizer step"):
        captured(lambda: None)


def looping(prepare: Callable[[torch.Tensor], torch.Tensor] = lambda x: x, score: bool = True) -> None:
    """Two epochs from a loader, each followed by an evaluation from another one."""
    torch.manual_seed(0)
    x = torch.randn(160, 6)
    y = (x[:, 0] > 0).long()
    train = DataLoader(TensorDataset(x[:96], y[:96]), 8, shuffle=True)
    val = DataLoader(TensorDataset(x[96:], y[96:]), 16)
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(2):
        for xb, yb in train:
            optimizer.zero_grad()
            F.cross_entropy(model(prepare(xb)), yb).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for xb, yb in val:
                out = model(prepare(xb))
                _ = F.cross_entropy(out, yb) if score else (out.argmax(1) == yb).float().mean()
        model.train()


@pytest.mark.parametrize("score", [True, False], ids=["with a loss", "accuracy only"])
def test_the_validation_that_the_loop_runs_is_the_tasks_validation(score: bool) -> None:
    task = captured(lambda: looping(score=score))
    assert task.val is not None and len(task.val) == 4 and not task.no_val
    torch.manual_seed(0)
    x = torch.randn(160, 6)
    assert torch.equal(torch.cat([b[0] for b in task.val]), x[96:])


def test_data_that_the_loop_computes_anew_is_not_guessed_at() -> None:
    task = captured(lambda: looping(prepare=lambda x: x * 2 + 1))
    assert task.val is None and "computes what it feeds" in task.no_val


def test_a_loop_that_never_evaluates_has_no_validation_and_says_so() -> None:
    task = captured(lambda: usual(classifier()))
    assert task.val is None and "no evaluation" in task.no_val
