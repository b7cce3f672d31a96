"""Physics-informed fit of a decay curve: nothing to validate on."""
import torch
from torch import nn

torch.manual_seed(239)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(600):
    t = torch.rand(64, 1) * 3
    t.requires_grad_()
    u = net(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    residual = ((du + 1.3 * u) ** 2).mean()
    start = (net(torch.zeros(1, 1)) - 1.0).pow(2).mean()
    loss = residual + 10 * start
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(step, f"{loss.item():.6f}")
