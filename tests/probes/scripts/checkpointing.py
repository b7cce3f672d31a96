"""Activation checkpointing, both kinds, with dropout."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(15)


class Deep(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.inp, self.out, self.reentrant = nn.Linear(8, 16), nn.Linear(16, 2), reentrant
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2)) for _ in range(3))

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.out(x)


for reentrant in (True, False):
    model = Deep(reentrant)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(8):
        x = torch.randn(16, 8)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(reentrant, step, repr(loss.item()))
