"""Frameworks keep functions of torch and ask later whether they are the same: Lightning does so with reductions."""

from __future__ import annotations

import torch
from torch import nn

import traindx


def test_reductions_and_activations_are_themselves_on_every_step(tmp_path):
    asked = {name: getattr(torch, name) for name in ("mean", "sum", "max", "min")}
    asked |= {name: getattr(nn.functional, name) for name in ("relu", "gelu")}
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with traindx.watch(model, optimizer, dir=tmp_path):
        for _ in range(30):
            assert nn.functional.relu is asked["relu"] and nn.functional.gelu is asked["gelu"]
            loss = (model(torch.randn(8, 4)) ** 2).mean()
            assert torch.mean is asked["mean"] and torch.sum is asked["sum"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_tensors_of_no_dimension_can_still_be_listed(tmp_path):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with traindx.watch(model, optimizer, dir=tmp_path):
        for _ in range(5):
            loss = (model(torch.randn(8, 4)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            assert len(torch.tensor(losses)) == len(losses)
    assert len(torch.tensor(losses)) == 5
