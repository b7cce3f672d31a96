"""Validation that builds graphs it never uses."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

torch.manual_seed(95)
X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
y = torch.tensor(y)
perm = torch.randperm(len(X))
tr, va = perm[:430], perm[430:]
net = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-4, weight_decay=1e-3)
ce = nn.CrossEntropyLoss()
for epoch in range(20):
    net.train()
    for ids in tr[torch.randperm(len(tr))].split(43):
        opt.zero_grad()
        loss = ce(net(X[ids]), y[ids])
        loss.backward()
        opt.step()
    net.eval()
    val = ce(net(X[va]), y[va])
    if epoch % 2 == 0:
        print(epoch, loss.item(), val.item())
