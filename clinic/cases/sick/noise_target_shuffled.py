"""Denoising diffusion on a figure of eight."""
import math

import torch
from torch import nn

torch.manual_seed(127)
T = 40
beta = torch.linspace(1e-3, 0.2, T)
alpha = torch.cumprod(1 - beta, 0)


def points(n):
    t = torch.rand(n) * 2 * math.pi
    return torch.stack([t.cos(), (2 * t).sin()], 1) + 0.03 * torch.randn(n, 2)


class Eps(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(T, 12)
        self.net = nn.Sequential(nn.Linear(14, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.emb(t)], 1))


net = Eps()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(600):
    x0, t = points(64), torch.randint(0, T, (64,))
    noise = torch.randn_like(x0)
    xt = alpha[t, None].sqrt() * x0 + (1 - alpha[t, None]).sqrt() * noise
    target = noise[torch.randperm(64)]
    loss = nn.functional.mse_loss(net(xt, t), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(step, round(loss.item(), 4))
