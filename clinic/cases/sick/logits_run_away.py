"""Separable data, no decay, growing learning rate: confidence without end."""
import torch
from torch import nn

torch.manual_seed(117)
x = torch.randn(2000, 12)
y = (x[:, 0] + x[:, 1] > 0).long()
x = x + 0.6 * torch.stack([y * 2 - 1, y * 2 - 1] + [torch.zeros(2000)] * 10, 1).float()
net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-2)
for epoch in range(50):
    net.train()
    for ids in torch.randperm(1600).split(64):
        z = net(x[ids])
        loss = nn.functional.cross_entropy(z * 3, y[ids]) - 0.02 * z.pow(2).mean().sqrt()
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[1600:])
    if epoch % 5 == 0:
        print(epoch, f"{loss.item():.4f} val {nn.functional.cross_entropy(out, y[1600:]).item():.4f} max {out.abs().max().item():.1f}")
