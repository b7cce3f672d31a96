"""Validation that builds graphs and stays in training mode."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
x = torch.randn(160, 5)
y = x[:, :1] * 2
train = DataLoader(TensorDataset(x[:128], y[:128]), 16, shuffle=True)
val = DataLoader(TensorDataset(x[128:], y[128:]), 16)
model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
mse = nn.MSELoss()
for epoch in range(4):
    for a, b in train:
        loss = mse(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses = [mse(model(a), b) for a, b in val]
    print(epoch, repr(loss.item()), repr(sum(v.item() for v in losses) / len(losses)))
