"""A small learning rate and a short budget: still falling at the end, and fine."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(267)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.03)
for epoch in range(20):
    net.train()
    for ids in torch.randperm(1400).split(40):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(net(X[1400:]), y[1400:]).item():.4f}")
