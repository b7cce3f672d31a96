"""Dropout 0.5 everywhere: validation is better than training from start to end."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(225)
d = load_digits()
X, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
p = torch.randperm(len(X))
tr = DataLoader(TensorDataset(X[p[:1400]], y[p[:1400]]), batch_size=50, shuffle=True)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(14):
    net.train()
    total = 0
    for a, b in tr:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        total += loss.item() * len(b)
    net.eval()
    with torch.no_grad():
        out = net(X[p[1400:]])
    print(epoch, f"train {total / 1400:.4f} val {nn.functional.cross_entropy(out, y[p[1400:]]).item():.4f}")
