"""A GAN on two moons with a discriminator that is far too strong."""
import math

import torch
from torch import nn

torch.manual_seed(110)


def moons(n):
    t = torch.rand(n) * math.pi
    side = torch.randint(0, 2, (n,)).float()
    x = torch.stack([t.cos() + side, t.sin() * (1 - 2 * side) + 0.3 * side], 1)
    return x + 0.05 * torch.randn(n, 2) + 4.0


G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 128), nn.LeakyReLU(0.2), nn.Linear(128, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-5)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(900):
    real, fake = moons(64), G(torch.randn(64, 4))
    d_loss = bce(D(real), torch.ones(64, 1)) + bce(D(fake.detach()), torch.zeros(64, 1))
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = torch.log(1 - torch.sigmoid(D(fake)) + 1e-6).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 90 == 0:
        print(step, f"D {d_loss.item():.4f} G {g_loss.item():.6f}")
