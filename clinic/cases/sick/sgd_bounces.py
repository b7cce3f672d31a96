"""Digits, two tanh layers, plain SGD."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(X), generator=torch.Generator().manual_seed(4))
X, y = X[order], y[order]
net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
opt = torch.optim.SGD(net.parameters(), lr=1.0)
lossf = nn.CrossEntropyLoss()
for epoch in range(35):
    net.train()
    for ids in torch.randperm(1500).split(64):
        opt.zero_grad()
        loss = lossf(net(X[ids]), y[ids])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1500:])
    print(f"{epoch:2d} {loss.item():8.4f} {lossf(out, y[1500:]).item():8.4f} {(out.argmax(1) == y[1500:]).float().mean():.3f}")
