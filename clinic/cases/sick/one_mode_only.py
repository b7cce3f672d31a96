"""GAN on eight clusters whose generator finds one and stays there."""
import math

import torch
from torch import nn

torch.manual_seed(121)


def clusters(n):
    k = torch.randint(0, 8, (n,)).float() * math.pi / 4
    return torch.stack([k.cos(), k.sin()], 1) * 2 + 0.03 * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, z):
        return self.net(z * 0.01)


G = Generator()
D = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
og = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.9))
od = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.9))
bce = nn.BCEWithLogitsLoss()
for step in range(700):
    fake = G(torch.randn(64, 2))
    d_loss = bce(D(clusters(64)), torch.ones(64, 1)) + bce(D(fake.detach()), torch.zeros(64, 1))
    od.zero_grad()
    d_loss.backward()
    od.step()
    g_loss = bce(D(fake), torch.ones(64, 1))
    og.zero_grad()
    g_loss.backward()
    og.step()
    if step % 70 == 0:
        print(step, f"D {d_loss.item():.3f} G {g_loss.item():.3f} spread {fake.std(0).mean().item():.4f}")
