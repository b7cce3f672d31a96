"""The skip guard: off unless asked for; then a broken update is not made, and counted."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import traindx
from traindx.run import Run


def _train(tmp_path: Path, *, skip: bool) -> tuple[nn.Module, torch.optim.Optimizer, Run]:
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    with traindx.watch(net, optimizer, dir=tmp_path, skip_nonfinite=skip, replay=False) as dx:
        for step in range(8):
            loss = net(torch.randn(8, 4)).square().mean() * (float("nan") if step in (3, 5) else 1.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net, optimizer, dx.run()


def test_broken_updates_are_not_made_and_counted(tmp_path: Path) -> None:
    net, optimizer, run = _train(tmp_path, skip=True)
    assert all(bool(torch.isfinite(p).all()) for p in net.parameters())
    assert all(float(s["step"]) == 6 for s in optimizer.state.values())
    assert sum(e.data.get("count", 1) for e in run.events_of("skip_guard")) == 2


def test_without_the_guard_the_run_is_what_it_is(tmp_path: Path) -> None:
    net, _, run = _train(tmp_path, skip=False)
    assert not any(bool(torch.isfinite(p).all()) for p in net.parameters())
    assert run.events_of("skip_guard") == []
