"""Digits with class ids read from a file that counts from one."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(80)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32) / 16
y = torch.tensor(y) + 1  # the export numbers classes 1..10
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(10):
    net.train()
    for ids in torch.randperm(1500).split(50):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
