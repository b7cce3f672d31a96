"""Regularise hard: dropout 0.9 in every layer of a narrow net."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(76)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
idx = torch.randperm(len(X))
tr, va = idx[:1437], idx[1437:]
P = 0.9
net = nn.Sequential(nn.Dropout(P), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(P), nn.Linear(32, 32), nn.ReLU(), nn.Dropout(P), nn.Linear(32, 10))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.3)
for epoch in range(25):
    net.train()
    total = 0
    for ids in tr[torch.randperm(len(tr))].split(48):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        loss.backward()
        opt.step()
        total += loss.item() * len(ids)
    net.eval()
    with torch.no_grad():
        out = net(X[va])
    print(epoch, f"{total / len(tr):.4f} {nn.functional.cross_entropy(out, y[va]).item():.4f} {(out.argmax(1) == y[va]).float().mean():.3f}")
