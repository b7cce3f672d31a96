"""An optimizer inside another one: the outer step is the step, the inner one has the state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from traindx import watch
from traindx.probes.read.common.names import working
from traindx.run import Run


class Lookahead(torch.optim.Optimizer):
    """Every fifth step goes half of the way."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner, self.count = inner, 0
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        out = self.inner.step(closure)
        self.count += 1
        if self.count % 5 == 0:
            with torch.no_grad():
                for slow, fast in zip(self.slow, (p for g in self.param_groups for p in g["params"]), strict=True):
                    fast.copy_(slow.lerp_(fast, 0.5))
        return out


class Fails(torch.optim.SGD):
    """Its third step raises."""

    count = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        self.count += 1
        if self.count == 3:
            raise RuntimeError("no memory")
        return super().step(closure)


def trained(make: Callable[[nn.Module], torch.optim.Optimizer], folder: Path, steps: int = 30) -> Run:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    opt = make(net)
    with watch(net, opt, dir=folder, budget=None) as dx:
        for _ in range(steps):
            x = torch.randn(16, 4)
            loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
            opt.zero_grad()
            loss.backward()
            try:
                opt.step()
            except RuntimeError:
                torch.optim.SGD(net.parameters(), lr=0.1).step()  # the program goes on another way
    return dx.run()


def test_the_step_of_the_wrapper_is_the_step(tmp_path: Path) -> None:
    run = trained(lambda net: Lookahead(torch.optim.Adam(net.parameters(), lr=1e-2)), tmp_path / "r")
    assert run.steps == (0, 29) and len(run.series("loss/train")) == 30
    assert run.fact("optimizer.name") == "Adam" and run.fact("optimizer.count") == 1
    assert not run.fact("optimizer.duplicates") and run.fact("optimizer.fresh_at_step") is None
    assert len(run.matrix("adam_rms/param")) > 5


def test_a_step_that_raised_hides_no_later_one(tmp_path: Path) -> None:
    run = trained(lambda net: Fails(net.parameters(), lr=0.1), tmp_path / "r")
    assert len(run.series("loss/train")) >= 29 and run.steps is not None and run.steps[1] >= 28


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS])
def test_an_optimizer_that_wraps_none_works_itself(kind: type[torch.optim.Optimizer]) -> None:
    opt = kind([torch.zeros(2, requires_grad=True)], lr=0.1)  # type: ignore[call-arg]
    assert working(opt) is opt and working(None) is None
