"""Eight Gaussians on a ring, a small GAN with two optimizers."""
import math

import torch
from torch import nn

torch.manual_seed(203)


def real_batch(n):
    k = torch.randint(0, 8, (n,)).float() * math.pi / 4
    return torch.stack([k.cos(), k.sin()], 1) * 1.5 + 0.08 * torch.randn(n, 2)


gen = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
disc = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
g_opt = torch.optim.Adam(gen.parameters(), lr=5e-4, betas=(0.5, 0.99))
d_opt = torch.optim.Adam(disc.parameters(), lr=5e-4, betas=(0.5, 0.99))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.full((64, 1), 0.9), torch.zeros(64, 1)
for it in range(1000):
    fake = gen(torch.randn(64, 8))
    d_loss = bce(disc(real_batch(64)), ones) + bce(disc(fake.detach()), zeros)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = bce(disc(fake), torch.ones(64, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if it % 100 == 0:
        print(it, f"D {d_loss.item():.3f} G {g_loss.item():.3f}")
