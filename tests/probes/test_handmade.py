"""Losses that a script writes itself: what they amount to, and what stays unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from probes.watched import watched
from traindx.forensics.witness import Witness
from traindx.probes.read.loss.contract import Contract
from traindx.probes.read.loss.handmade import Written, read
from traindx.run import Run

N, C = 16, 5
Loss = Callable[[Tensor, Tensor], Tensor]


def taped(loss: Loss, y: Tensor, out: int = C) -> Run:
    """The run of a small loop whose loss is this one."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, out)), torch.randn(N, 8)

    def loop() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(6):
            value = loss(model(x), y)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

    return watched(loop, Witness(), Contract())


def picks(logp: Tensor, y: Tensor) -> Tensor:
    return logp[torch.arange(len(y)), y]


def by_exponents(out: Tensor, y: Tensor) -> Tensor:
    z = out - out.max(1, keepdim=True).values
    return (z.exp().sum(1).log() - z[range(len(y)), y]).mean()


CLASSES: dict[str, Loss] = {
    "gather": lambda out, y: -F.log_softmax(out, -1).gather(1, y[:, None]).mean(),
    "rows": lambda out, y: -picks(out.log_softmax(1), y).mean(),
    "log of softmax": lambda out, y: -picks((torch.softmax(out, 1) + 1e-9).log(), y).sum() / len(y),
    "logsumexp": lambda out, y: (torch.logsumexp(out, 1) - picks(out, y)).mean(),
    "off the sum": lambda out, y: -picks(out - out.logsumexp(1, keepdim=True), y).mean(),
    "exponents": by_exponents,
    "with a penalty": lambda out, y: -picks(out.log_softmax(1), y).mean() + 1e-3 * (out**2).mean(),
}


@pytest.mark.parametrize("name", CLASSES)
def test_cross_entropies(name: str) -> None:
    run = taped(CLASSES[name], torch.arange(N) % C)
    assert (run.fact("loss.kind"), run.fact("loss.classes"), run.fact("loss.target_unique")) == ("ce", C, C)
    assert not run.fact("loss.probabilities") and str(run.fact("loss.site")).rpartition("/")[2].startswith("test_handmade.py:")
    assert len(run["accuracy/train"]) == 6


def test_probabilities_in_place_of_logits_are_seen() -> None:
    assert taped(lambda out, y: by_exponents(out.softmax(1), y), torch.arange(N) % C).fact("loss.probabilities")


def test_a_softmax_over_the_batch_is_seen() -> None:
    run = taped(lambda out, y: -picks(out - out.logsumexp(0, keepdim=True), y).mean(), torch.arange(N) % C)
    assert run.fact("model.head_activation")["dim"] == 0


def test_one_hot_targets() -> None:
    y = F.one_hot(torch.arange(N) % C, C + 1)[:, :C].float()
    cut = y.roll(1, 1) * (torch.arange(C) > 0)
    run = taped(lambda out, y: -(y * out.log_softmax(1)).sum(1).mean(), y)
    assert run.fact("loss.target_row_sum") == [1.0, 1.0] and run.fact("loss.target_first_class") == 1.0
    assert taped(lambda out, y: (y * out.log_softmax(1)).sum(1).mean(), -y).fact("loss.target_row_sum") == [1.0, 1.0]
    run = taped(lambda out, y: -(y * out.log_softmax(1)).sum(1).mean(), cut)
    assert run.fact("loss.target_row_sum")[0] == 0.0 and run.fact("loss.target_first_class") == 0.0


DISTANCES: dict[str, tuple[str, Loss]] = {
    "power": ("mse", lambda out, y: ((out - y) ** 2).mean()),
    "square": ("mse", lambda out, y: torch.mean(torch.square(y - out))),
    "product": ("mse", lambda out, y: _product(out, y)),
    "absolute": ("l1", lambda out, y: (out - y).abs().mean()),
    "rounded off": ("l1", lambda out, y: torch.sqrt((out - y) ** 2 + 1e-4).mean()),
}


def _product(out: Tensor, y: Tensor) -> Tensor:
    e = out - y
    return (e * e).sum() / len(e)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances(name: str) -> None:
    kind, loss = DISTANCES[name]
    run = taped(loss, torch.randn(N, 1) * 3, 1)
    assert run.fact("loss.kind") == kind and run.fact("loss.reduction") == "mean" and not run.fact("loss.broadcast")


def test_a_sum_is_a_sum() -> None:
    assert taped(lambda out, y: ((out - y) ** 2).sum(), torch.randn(N, 1), 1).fact("loss.reduction") == "sum"


def test_a_column_against_a_row_is_a_broadcast() -> None:
    run = taped(lambda out, y: torch.sqrt((out - y) ** 2 + 1e-4).mean(), torch.randn(N), 1)
    assert run.fact("loss.broadcast") and run.fact("loss.target_shape") == [N]


def test_all_pairs_on_purpose_are_none() -> None:
    run = taped(lambda out, y: (out[:, 0].unsqueeze(1) - y).abs().mean(), torch.randn(N), 1)
    assert not run.fact("loss.broadcast")


def test_targets_out_of_reach_are_counted() -> None:
    run = taped(lambda out, y: ((torch.sigmoid(out) - y) ** 2).mean(), torch.full((N, 1), 40.0), 1)
    assert run.fact("loss.unreachable_share") == 1.0


def test_masked_targets_are_not_counted() -> None:
    y = torch.arange(N) % C
    keep = (y != 0).float()
    run = taped(lambda out, y: (-picks(out.log_softmax(1), y) * keep).sum() / keep.sum(), y)
    assert run.fact("loss.kind") == "ce" and run["batch/valid_targets"].values[0] == pytest.approx(float(keep.mean()))
    far = torch.full((N, 1), 40.0)
    far[:8] = 0.5
    near = (far < 1).float()
    run = taped(lambda out, y: (((torch.sigmoid(out) - y) ** 2) * near).sum() / near.sum(), far, 1)
    assert run.fact("loss.target_range") == [0.5, 0.5] and not run.fact("loss.unreachable_share")


def test_a_binary_cross_entropy() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        p = torch.sigmoid(out)
        return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()

    assert taped(loss, (torch.arange(N) % 2).float()[:, None], 1).fact("loss.kind") == "bce"


UNREAD: dict[str, Loss] = {
    "energy": lambda out, y: (out**2).mean(),
    "a residual of two outputs": lambda out, y: ((out[:, 0] - out[:, 1]) ** 2).mean(),
    "a constant": lambda out, y: ((out - 1) ** 2).mean(),
    "a policy": lambda out, y: -(picks(out.log_softmax(1), y) * torch.randn(N)).exp().mean(),
    "advantages": lambda out, y: -(picks(out.log_softmax(1), y) * torch.linspace(-1, 1, N)).mean(),
    "entropy": lambda out, y: (out.softmax(1) * out.log_softmax(1)).sum(1).mean(),
}


@pytest.mark.parametrize("name", UNREAD)
def test_other_things_stay_unread(name: str) -> None:
    assert taped(UNREAD[name], torch.arange(N) % C).fact("loss.kind") in (None, "unknown")


def test_in_place_calls_and_empty_tapes_do_no_harm() -> None:
    loss = torch.zeros((), requires_grad=True) * 2

    class Call:
        func, kwargs, file, line = Tensor.add_, {}, "a.py", 1

        def __init__(self, value: Any) -> None:
            self.args, self.output = (value, value), value

    assert read([], loss) == [] and read([Call(loss)], loss) == []
    assert Written.__doc__
