"""Two optimizers that alternate."""

import torch
from torch import nn

torch.manual_seed(5)
gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
disc = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(gen.parameters(), 1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(disc.parameters(), 1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(20):
    real = torch.randn(32, 2) * 0.5 + 2
    fake = gen(torch.randn(32, 4))
    opt_d.zero_grad()
    loss_d = bce(disc(real), ones) + bce(disc(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = bce(disc(fake), ones)
    loss_g.backward()
    opt_g.step()
    print(step, repr(loss_d.item()), repr(loss_g.item()))
