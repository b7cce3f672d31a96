"""Batches of 700: two updates per epoch, almost no noise."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(228)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(80):
    net.train()
    for ids in torch.randperm(1400).split(700):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    if epoch % 8 == 0:
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
