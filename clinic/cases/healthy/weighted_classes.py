"""Class weights in the loss shift its level: the first loss is not ln C."""
import torch
from torch import nn

torch.manual_seed(248)
n = 3000
x = torch.randn(n, 8)
score = x[:, 0] + 0.5 * x[:, 1]
y = (score > 0.3).long() + (score > 1.4).long()
counts = torch.bincount(y[:2400]).float()
weight = counts.sum() / (3 * counts)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
ce = nn.CrossEntropyLoss(weight=weight)
for epoch in range(12):
    net.train()
    for ids in torch.randperm(2400).split(60):
        loss = ce(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[2400:])
        recall = [(out.argmax(1)[y[2400:] == c] == c).float().mean().item() for c in range(3)]
    print(epoch, f"{loss.item():.4f} {ce(out, y[2400:]).item():.4f} recall {[round(r, 2) for r in recall]}")
