"""Stops when validation has not improved for five epochs and restores the best weights."""
import copy

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(234)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
opt = torch.optim.Adam(net.parameters(), lr=4e-3, weight_decay=1e-3)
best, state, bad = float("inf"), None, 0
for epoch in range(60):
    net.train()
    for ids in torch.randperm(1200).split(40):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(net(X[1200:]), y[1200:]).item()
    if val < best - 1e-4:
        best, state, bad = val, copy.deepcopy(net.state_dict()), 0
    else:
        bad += 1
    print(epoch, f"{loss.item():.4f} {val:.4f}")
    if bad == 5:
        break
net.load_state_dict(state)
print("best", round(best, 4))
