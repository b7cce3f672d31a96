"""Experts: modules alike, side by side, that share a batch."""

from __future__ import annotations

import torch
from torch import nn

from probes.watched import watched
from traindx.probes.read.model.experts import Experts


class Switch(nn.Module):
    def __init__(self, favour: float = 0.0, experts: int = 4):
        super().__init__()
        self.router = nn.Linear(6, experts)
        self.pool = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(experts))
        with torch.no_grad():
            self.router.bias[1] += favour

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = x.new_zeros(len(x))
        for i, expert in enumerate(self.pool):
            if (mine := chosen == i).any():
                out[mine] = weight[mine] * expert(x[mine])[:, 0]
        return out


def fit(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(6):
        x = torch.randn(64, 6)
        optimizer.zero_grad()
        (model(x).flatten() - x[:, 0]).pow(2).mean().backward()
        optimizer.step()


def test_the_rows_each_expert_gets():
    load = watched(lambda: fit(Switch(20.0)), Experts())["expert_load/expert"]
    assert load.names == ("pool.0", "pool.1", "pool.2", "pool.3")
    assert load.values[-1].tolist() == [0.0, 1.0, 0.0, 0.0]
    even = watched(lambda: fit(Switch()), Experts())["expert_load/expert"]
    assert even.values.max() < 0.9
    assert abs(even.values[-1].sum() - 1) < 1e-6


def test_a_stack_of_layers_holds_no_experts():
    stack = nn.Sequential(*[nn.Linear(6, 6) for _ in range(5)], nn.Linear(6, 1))
    body = nn.Sequential(nn.Sequential(*[nn.Linear(6, 6) for _ in range(5)]), nn.Linear(6, 1))
    for model in (stack, body):
        assert "expert_load/expert" not in watched(lambda model=model: fit(model), Experts())
