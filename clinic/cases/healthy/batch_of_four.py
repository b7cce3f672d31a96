"""Batch size four: the loss jumps wildly from step to step, and that is sampling."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(227)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
step = 0
for epoch in range(4):
    net.train()
    for ids in torch.randperm(1400).split(4):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
