"""Alternate between clean and noisy batches of a regression task."""
import math

import torch
from torch import nn

torch.manual_seed(23)
t = torch.linspace(-3, 3, 900).unsqueeze(1)
signal = torch.sin(2 * t) + 0.3 * t
order = torch.randperm(900)
tt, ss = t[order], signal[order]


class Fourier(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.register_buffer("freq", torch.arange(1, n + 1) * math.pi / 6)
        self.readout = nn.Sequential(nn.Linear(2 * n, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, u):
        a = u * self.freq
        return self.readout(torch.cat([a.sin(), a.cos()], 1))


net = Fourier()
opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
USE_NOISE = False
for epoch in range(40):
    net.train()
    total = 0.0
    for b in torch.randperm(720).split(48):
        u, v = tt[b], ss[b]
        opt.zero_grad()
        if USE_NOISE:
            v = v + 0.1 * torch.randn_like(v)
            loss = nn.functional.smooth_l1_loss(net(u), v)
            loss.backward()
        else:
            loss = nn.functional.smooth_l1_loss(net(u), v)
        opt.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        val = nn.functional.smooth_l1_loss(net(tt[720:]), ss[720:]).item()
    if epoch % 5 == 0:
        print(epoch, round(total / 15, 4), round(val, 4))
