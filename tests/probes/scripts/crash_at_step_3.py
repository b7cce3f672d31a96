"""Raises in the middle of the training."""

import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    target = torch.tensor([0, 1, 0, 1 if step < 3 else 7])
    loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()))
