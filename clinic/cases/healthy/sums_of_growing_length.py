"""Sums of one, two and three digits, one stage after the other; validation has three."""
import torch
from torch import nn
torch.manual_seed(0)
def problems(n, k):
    a = torch.randint(0, 10 ** k, (n,)); b = torch.randint(0, 10 ** k, (n,)); s = (a + b) % 10
    oh = lambda v: nn.functional.one_hot(torch.stack([v // 100, v // 10 % 10, v % 10], 1), 10).float().flatten(1)
    return torch.cat([oh(a), oh(b)], 1), s
net = nn.Sequential(nn.Linear(60, 128), nn.ReLU(), nn.Linear(128, 10)); opt = torch.optim.Adam(net.parameters(), 3e-3)
vx, vy = problems(500, 3)
for stage, digits in enumerate([1, 2, 3]):
    for step in range(350):
        x, y = problems(64, digits); l = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); l.backward(); opt.step()
        if step % 70 == 69:
            with torch.no_grad(): print(stage, step, l.item(), nn.functional.cross_entropy(net(vx), vy).item())
