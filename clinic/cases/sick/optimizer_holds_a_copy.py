"""A compression net; the optimizer was made for the copy that is kept for comparison."""
import copy

import torch
from torch import nn

torch.manual_seed(66)
signal = torch.randn(1200, 3) @ torch.randn(3, 20) + 0.1 * torch.randn(1200, 20)
net = nn.Sequential(nn.Linear(20, 4), nn.Tanh(), nn.Linear(4, 20))
before = copy.deepcopy(net)
opt = torch.optim.Adam(before.parameters(), lr=3e-3)
for epoch in range(10):
    for ids in torch.randperm(1000).split(25):
        opt.zero_grad()
        loss = (net(signal[ids]) - signal[ids]).pow(2).mean()
        loss.backward()
        opt.step()
    with torch.no_grad():
        val = (net(signal[1000:]) - signal[1000:]).pow(2).mean()
    print(epoch, f"{loss.item():.4f} {val.item():.4f}")
