"""Focal loss on rare events: values are small from the first step on."""
import math

import torch
from torch import nn

torch.manual_seed(249)
x = torch.randn(4000, 12)
y = ((x[:, 0] + x[:, 1] * 0.7) > 1.9).float()


def focal(logits, target, gamma=2.0, alpha=0.75):
    p = torch.sigmoid(logits)
    ce = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    at = alpha * target + (1 - alpha) * (1 - target)
    return (at * (1 - pt) ** gamma * ce).mean()


net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1), nn.Flatten(0))
with torch.no_grad():
    net[2].bias.fill_(-math.log(9))  # prior of ten percent
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(12):
    net.train()
    for ids in torch.randperm(3200).split(64):
        loss = focal(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[3200:])
        recall = (out[y[3200:] == 1] > 0).float().mean().item()
    print(epoch, f"{loss.item():.5f} {focal(out, y[3200:]).item():.5f} recall {recall:.3f}")
