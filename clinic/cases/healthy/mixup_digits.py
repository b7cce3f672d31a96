"""Mixup: inputs and labels are blended, training loss stays high."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(207)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
perm = torch.randperm(len(X))
X, y = X[perm], y[perm]
net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
beta = torch.distributions.Beta(0.4, 0.4)
for epoch in range(18):
    net.train()
    for ids in torch.randperm(1450).split(50):
        lam = beta.sample()
        other = ids[torch.randperm(len(ids))]
        mixed = lam * X[ids] + (1 - lam) * X[other]
        out = net(mixed)
        loss = lam * F.cross_entropy(out, y[ids]) + (1 - lam) * F.cross_entropy(out, y[other])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1450:])
    print(epoch, f"{loss.item():.4f} {F.cross_entropy(out, y[1450:]).item():.4f} {(out.argmax(1) == y[1450:]).float().mean():.3f}")
