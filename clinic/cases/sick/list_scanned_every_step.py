"""A 'recent losses' window that is never trimmed."""
import torch
from torch import nn

torch.manual_seed(102)
x = torch.randn(1500, 20)
y = (x[:, 0] > x[:, 1]).long()
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
seen = []
for step in range(900):
    ids = torch.randint(0, 1500, (32,))
    loss = nn.functional.cross_entropy(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen.extend(ids.tolist())
    repeats = sum(1 for s in seen if s == seen[-1])  # how often was the newest sample used?
    if step % 90 == 0:
        print(step, round(loss.item(), 4), repeats)
