"""WGAN-GP: the critic's loss is negative and the penalty needs gradients of gradients."""
import torch
from torch import nn

torch.manual_seed(265)
critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
gen = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 2))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(gen.parameters(), lr=5e-4, betas=(0.0, 0.9))
for step in range(250):
    for _ in range(3):
        real = torch.randn(48, 2) * torch.tensor([0.3, 0.1]) + torch.tensor([1.0, 0.5])
        fake = gen(torch.randn(48, 3)).detach()
        mix = torch.rand(48, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        grad = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
        c_loss = critic(fake).mean() - critic(real).mean() + 10 * ((grad.norm(dim=1) - 1) ** 2).mean()
        opt_c.zero_grad()
        c_loss.backward()
        opt_c.step()
    g_loss = -critic(gen(torch.randn(48, 3))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 25 == 0:
        print(step, f"critic {c_loss.item():.3f} gen {g_loss.item():.3f}")
