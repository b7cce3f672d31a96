"""Triangular learning rate on breast cancer data."""
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn

torch.manual_seed(201)
X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor(StandardScaler().fit_transform(X), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32)
order = torch.randperm(len(X))
tr, va = order[:420], order[420:]
net = nn.Sequential(nn.Linear(30, 12), nn.ReLU(), nn.Linear(12, 1), nn.Flatten(0))
opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-3)
cyc = torch.optim.lr_scheduler.CyclicLR(opt, base_lr=1e-3, max_lr=3e-2, step_size_up=60, cycle_momentum=False)
bce = nn.BCEWithLogitsLoss()
for epoch in range(40):
    net.train()
    for ids in tr[torch.randperm(420)].split(21):
        opt.zero_grad()
        loss = bce(net(X[ids]), y[ids])
        loss.backward()
        opt.step()
        cyc.step()
    net.eval()
    with torch.no_grad():
        val = bce(net(X[va]), y[va]).item()
    if epoch % 4 == 0:
        print(epoch, round(loss.item(), 4), round(val, 4), cyc.get_last_lr()[0])
