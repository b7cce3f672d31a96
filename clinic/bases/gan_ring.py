"""GAN on a ring of Gaussians."""
import math

import torch
from torch import nn

SEED = 0
STEPS = 600
LR = 5e-4
D_LR = 5e-4

torch.manual_seed(SEED)


def real(n):
    k = torch.randint(0, 8, (n,)).float() * math.pi / 4
    return torch.stack([k.cos(), k.sin()], 1) * 1.5 + 0.1 * torch.randn(n, 2)


G = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
D = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=LR, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=D_LR, betas=(0.5, 0.99))
bce = nn.BCEWithLogitsLoss()
for step in range(STEPS):
    fake = G(torch.randn(64, 6))
    d_loss = bce(D(real(64)), torch.full((64, 1), 0.9)) + bce(D(fake.detach()), torch.zeros(64, 1))
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = bce(D(fake), torch.ones(64, 1))
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 60 == 0:
        print(step, round(d_loss.item(), 3), round(g_loss.item(), 3))
