"""Learn the spread of noisy data, with a likelihood written by hand."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
weights = torch.randn(8)

for _ in range(240):
    x = torch.randn(64, 8)
    y = x @ weights + 0.1 * torch.randn(64)
    mean, spread = model(x).unbind(1)
    loss = (torch.log(spread + 0.5) + (y - mean) ** 2 / (spread + 0.5)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
