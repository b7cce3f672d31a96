"""Pinball loss for three quantiles of noisy data."""
import torch
from torch import nn

torch.manual_seed(258)
x = torch.rand(2400, 1) * 4 - 2
y = x**2 / 2 + torch.randn_like(x) * (0.2 + 0.2 * x.abs())
qs = torch.tensor([0.1, 0.5, 0.9])


def pinball(pred, target):
    e = target - pred
    return torch.maximum(qs * e, (qs - 1) * e).mean()


net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(16):
    net.train()
    for ids in torch.randperm(2000).split(50):
        loss = pinball(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, round(loss.item(), 4), round(pinball(net(x[2000:]), y[2000:]).item(), 4))
