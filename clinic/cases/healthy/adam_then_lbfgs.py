"""A damped oscillator learned from its equation: Adam first, L-BFGS for the last digits."""
import torch
from torch import nn

torch.manual_seed(243)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
t = torch.linspace(0, 1, 100)[:, None].requires_grad_()
damping, frequency = 2.0, 8.0


def residual():
    u = net(t)
    du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    ddu = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)[0]
    physics = ((ddu + 2 * damping * du + frequency**2 * u) ** 2).mean()
    return 1e-3 * physics + (u[0] - 1).pow(2).sum() + 1e-2 * du[0].pow(2).sum()


adam = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(600):
    adam.zero_grad()
    loss = residual()
    loss.backward()
    adam.step()
    if step % 200 == 0:
        print(step, loss.item())

lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=10, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = residual()
    loss.backward()
    return loss


for _ in range(15):
    loss = lbfgs.step(closure)
print("final", loss.item())
