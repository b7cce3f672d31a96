"""Digits with a small MLP; the validation figures are averages of the batches."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16).float(), torch.tensor(y)
order = torch.randperm(len(X))
X, y = X[order], y[order]
train = DataLoader(TensorDataset(X[:1400], y[:1400]), batch_size=32, shuffle=True)
val = DataLoader(TensorDataset(X[1400:], y[1400:]), batch_size=64)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(20):
    net.train()
    for xb, yb in train:
        opt.zero_grad()
        criterion(net(xb), yb).backward()
        opt.step()
    net.eval()
    total = 0.0
    with torch.no_grad():
        for xb, yb in val:
            total += criterion(net(xb), yb).item()
    val_loss = total / len(val.dataset)
    print(f"epoch {epoch} val_loss {val_loss:.5f}")
