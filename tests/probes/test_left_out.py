"""Batches that the script leaves out are counted on every step, whatever its loss is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from traindx.forensics.arm import arm
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import MemorySink
from traindx.probes.launch.attach import attach, detach
from traindx.run import Run

STEPS, FIRST, EVERY = 260, 110, 6  # the bad batches come on steps that are skipped, but for a few
BAD = len(range(FIRST, STEPS, EVERY))


def watched(loop: Callable[[], None]) -> Run:
    """As `traindx run` does it, without the probes that these tests do not need."""
    recorder = Recorder(MemorySink(), probes=[])
    arm(recorder)
    observer = attach(recorder)
    try:
        loop()
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures, recorder.failures
    return recorder.sink.run()


def ran(guarded: Callable[[nn.Module, Tensor, Tensor], Tensor | None], value: float = math.nan, loader: bool = True) -> Run:
    """A run whose script makes no update where `guarded` gives no loss."""
    torch.manual_seed(0)
    x, y = torch.rand(STEPS * 4, 3) + 0.1, torch.rand(STEPS * 4, 2)
    x[[4 * i + 1 for i in range(FIRST, STEPS, EVERY)]] = value

    def loop() -> None:
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        batches = DataLoader(TensorDataset(x, y), 4) if loader else zip(x.split(4), y.split(4), strict=True)
        for a, b in batches:
            loss = guarded(model, a, b)
            if loss is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return watched(loop)


def left(run: Run) -> tuple[int, int, int]:
    told = run.fact("loop.left_out") or {}
    return tuple(int(told.get(key, 0)) for key in ("batches", "looked", "broke"))  # type: ignore[return-value]


def by_torch(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    loss = F.mse_loss(model(x), y)
    return None if torch.isnan(loss) else loss


def by_hand(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    loss = (model(x) - y).square().mean()
    return loss if math.isfinite(loss.item()) else None


def by_output(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    out = model(x)
    return None if out.isnan().any() else (out - y).square().mean()


def by_error(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    try:
        loss = (model(x) - y).square().mean()
        if not torch.isfinite(loss):
            raise FloatingPointError
    except FloatingPointError:
        return None
    return loss


def of_the_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    """The model's output is finite; its logarithm is not."""
    loss = -(y * torch.log(model(x).softmax(1) * x[:, :2])).mean()
    return loss if torch.isfinite(loss) else None


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("guarded", [by_torch, by_hand, by_output, by_error])
def test_all_are_counted(guarded: Callable[..., Tensor | None], loader: bool) -> None:
    assert left(ran(guarded, loader=loader)) == (BAD, BAD, BAD)


def test_a_loss_that_goes_another_way_where_it_breaks_is_heard_whole() -> None:
    def rarely(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
        loss = F.mse_loss(model(x), y)
        if x.min() == 0:
            loss = (loss * 0).log()
        return loss if loss > 0 else None

    batches, looked, broke = left(ran(rarely, 0.0))
    assert batches == BAD and 0 < broke == looked


def test_where_only_the_loss_breaks_all_are_counted_and_those_that_were_looked_at_tell_why() -> None:
    batches, looked, broke = left(ran(of_the_loss, 0.0))
    assert batches == BAD and 0 < broke == looked < BAD


def test_batches_that_are_left_out_for_another_reason_are_no_hidden_nan() -> None:
    def outliers(model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
        loss = F.mse_loss(model(x), y)
        return loss if loss < 5 else None

    run = ran(outliers, 100.0)
    assert left(run) == (0, 0, 0) and not run.events_of("nan_hidden")


def test_gradients_that_are_replaced_before_the_update_are_counted() -> None:
    torch.manual_seed(0)
    x = torch.rand(STEPS, 4, 3) + 0.1
    x[FIRST::EVERY, 1] = 0.0

    def loop() -> None:
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for a in x:
            out = model(a)
            loss = out.square().mean() + (out * a[:, :2]).square().sum(1).sqrt().mean()
            optimizer.zero_grad()
            loss.backward()
            for p in model.parameters():
                assert p.grad is not None
                p.grad[~torch.isfinite(p.grad)] = 0
            optimizer.step()

    run = watched(loop)
    (count,) = {e.data["count"] for e in run.events_of("nan_hidden") if e.data["how"] == "gradient" and e.data["count"] > 1}
    assert count == BAD and not run.events_of("nonfinite")
    assert run.series("loop/stale_grads").values.max() == 0


class Counts(TorchDispatchMode):
    """The script's own: how many operations there are."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [False, True], ids=["plain", "a mode of the script's"])
def test_a_guarded_loop_computes_the_same_and_its_modes_see_no_more(mode: bool) -> None:
    def loop() -> list[Any]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        counts = Counts()
        with counts if mode else nullcontext():
            for step in range(180):
                out = model(torch.rand(4, 3))
                loss = -torch.log(out.softmax(1) * (step % 7 > 0)).mean()
                if torch.isfinite(loss):
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        return [counts.seen, torch.get_rng_state(), *model.parameters()]

    bare, told = loop(), []
    watched(lambda: told.extend(loop()))
    assert bare[0] == told[0] and all(torch.equal(a, b) for a, b in zip(bare[1:], told[1:], strict=True))
