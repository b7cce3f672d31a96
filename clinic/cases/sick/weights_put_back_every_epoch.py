"""Sorting parcels by their scan; every epoch begins by loading the starting weights."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(65)
scan = torch.randn(1700, 24)
bay = (scan @ torch.randn(24, 6) + 0.5 * torch.randn(1700, 6)).argmax(1)
net = nn.Sequential(nn.Linear(24, 80), nn.GELU(), nn.Linear(80, 6))
start = copy.deepcopy(net.state_dict())
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
for epoch in range(12):
    net.load_state_dict(start)
    net.train()
    for ids in torch.randperm(1400).split(40):
        opt.zero_grad()
        loss = F.cross_entropy(net(scan[ids]), bay[ids])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.3f} {F.cross_entropy(net(scan[1400:]), bay[1400:]).item():.3f}")
