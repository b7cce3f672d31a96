"""Denoising diffusion on two moons: a noisy loss that flattens early, as always."""
import math

import torch
from torch import nn

torch.manual_seed(259)
T = 50
beta = torch.linspace(1e-3, 0.15, T)
alpha = torch.cumprod(1 - beta, 0)


def moons(n):
    t = torch.rand(n) * math.pi
    s = torch.randint(0, 2, (n,)).float()
    return torch.stack([t.cos() + s - 0.5, t.sin() * (1 - 2 * s) + 0.25 * s], 1) + 0.05 * torch.randn(n, 2)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T, 16)
        self.net = nn.Sequential(nn.Linear(18, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


model = Denoiser()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(900):
    x0 = moons(96)
    t = torch.randint(0, T, (96,))
    noise = torch.randn_like(x0)
    xt = alpha[t, None].sqrt() * x0 + (1 - alpha[t, None]).sqrt() * noise
    loss = nn.functional.mse_loss(model(xt, t), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 90 == 0:
        print(step, round(loss.item(), 4))
