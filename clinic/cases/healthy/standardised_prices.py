"""Regression on prices in the hundred thousands: targets standardised, metric in euros."""
import torch
from torch import nn

torch.manual_seed(226)
x = torch.randn(1800, 9)
price = 250_000 + 40_000 * x[:, 0] + 25_000 * torch.relu(x[:, 1]) * x[:, 2] + 10_000 * torch.randn(1800)
mean, std = price[:1400].mean(), price[:1400].std()
y = ((price - mean) / std).unsqueeze(1)
net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-4)
for epoch in range(18):
    net.train()
    for ids in torch.randperm(1400).split(40):
        loss = nn.functional.mse_loss(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        pred = net(x[1400:])
        mae = ((pred - y[1400:]).abs().mean() * std).item()
    print(epoch, f"{loss.item():.4f} {nn.functional.mse_loss(pred, y[1400:]).item():.4f} mae {mae:,.0f}")
