"""Uncertainty by Monte-Carlo dropout: dropout stays active in evaluation on purpose."""
import torch
from torch import nn

torch.manual_seed(261)
x = torch.rand(1500, 1) * 8 - 4
y = torch.sin(x) * 0.8 + 0.1 * torch.randn_like(x)
net = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)


def keep_dropout(m):
    if isinstance(m, nn.Dropout):
        m.train()


for epoch in range(16):
    net.train()
    for ids in torch.randperm(1200).split(40):
        loss = nn.functional.mse_loss(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    net.apply(keep_dropout)
    with torch.no_grad():
        draws = torch.stack([net(x[1200:]) for _ in range(8)])
        val = nn.functional.mse_loss(draws.mean(0), y[1200:]).item()
    print(epoch, f"{loss.item():.4f} {val:.4f} spread {draws.std(0).mean().item():.3f}")
