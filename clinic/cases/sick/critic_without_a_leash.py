"""Wasserstein critic between two point clouds, no weight clipping, no gradient penalty."""
import torch
from torch import nn

torch.manual_seed(72)
real = torch.randn(4000, 2) * 0.4 + torch.tensor([1.5, 0.0])
fake = torch.randn(4000, 2) * 0.4 - torch.tensor([1.5, 0.0])
critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
opt = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
for step in range(1200):
    r = real[torch.randint(0, 4000, (64,))]
    f = fake[torch.randint(0, 4000, (64,))]
    loss = critic(f).mean() - critic(r).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 120 == 0:
        print(step, round(loss.item(), 3))
