"""A run that stays NaN is examined once, then left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from traindx.forensics.arm import arm
from traindx.measures import effective_rank
from traindx.probes.drive.recorder import Recorder
from traindx.probes.follow.skipped import Skip
from traindx.probes.launch.attach import attach, detach


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The step of each that was skipped."""
    steps: list[int] = []
    told = Skip.stepped

    def stepped(skip: Skip, optimizer: Any, now: float) -> None:
        steps.append(skip._recorder.scene.step)
        told(skip, optimizer, now)

    monkeypatch.setattr(Skip, "stepped", stepped)
    return steps


def trained(bad: Callable[[int], bool], steps: int = 260) -> Any:
    torch.manual_seed(0)
    net = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    recorder = Recorder(budget=0.01)
    arm(recorder)
    observer = attach(recorder)
    try:
        for step in range(steps):
            x = torch.randn(8, 6)
            if bad(step):
                x = x * float("nan")
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
            if bad(step) and not bad(step + 1):
                net.reset_parameters()
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures
    return recorder.sink.run()


def test_most_steps_of_a_run_that_stays_broken_are_skipped(skipped: list[int]) -> None:
    run = trained(lambda step: step >= 130)
    assert [e.step for e in run.events_of("nonfinite") if e.data["what"] == "loss"] == [130]
    assert [e.step for e in run.events_of("nonfinite") if e.data["what"] == "grad"] == [130]
    assert sum(step > 135 for step in skipped) > 60
    assert len(run["loss/train"].steps) == 260


def test_a_run_that_comes_back_is_looked_at_when_it_breaks_again(skipped: list[int]) -> None:
    run = trained(lambda step: 130 <= step < 170 or step >= 220)
    assert len(run["loss/train"].steps) == 260
    assert 220 not in skipped and sum(step > 225 for step in skipped) > 20


def test_features_that_are_not_finite_have_no_rank_and_break_nothing() -> None:
    x = torch.randn(8, 4)
    assert float(effective_rank(x)) > 1
    x[2, 1] = float("nan")
    assert bool(effective_rank(x).isnan())


def test_huge_gradients_that_are_finite_are_not_called_infinite() -> None:
    net = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    try:
        for _ in range(4):
            optimizer.zero_grad()
            (net(torch.ones(8, 6)).mean() * 1e25).backward()  # its square is beyond float32, it is not
            optimizer.step()
    finally:
        detach(observer)
        recorder.close()
    run = recorder.sink.run()
    assert run.events_of("nonfinite") == []
    assert run.series("grad_norm").values[-1] == float("inf") or run.series("grad_norm").values[-1] > 1e24
