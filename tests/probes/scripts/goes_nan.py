"""A run that goes NaN and goes on."""

import torch
from torch import nn

torch.manual_seed(19)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(20):
    x = torch.rand(16, 4)
    if step == 12:
        x[3, 2] = float("nan")
    loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()))
