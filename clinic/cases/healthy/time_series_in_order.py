"""Forecasting: windows are fed in time order on purpose, validation is the future."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(254)
t = torch.arange(2600).float()
series = torch.sin(t / 12) + 0.5 * torch.sin(t / 5 + 1) + 0.1 * torch.randn(2600) + 0.0001 * t
W = 24
X = torch.stack([series[i : i + W] for i in range(2600 - W)])
Y = series[W:].unsqueeze(1)
train = DataLoader(TensorDataset(X[:2000], Y[:2000]), batch_size=40, shuffle=False)
net = nn.Sequential(nn.Linear(W, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(12):
    net.train()
    for a, b in train:
        loss = nn.functional.mse_loss(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(X[2000:]), Y[2000:]).item()
    print(epoch, f"{loss.item():.4f} {val:.4f} (noise {0.01:.2f}, {math.sqrt(val):.3f})")
