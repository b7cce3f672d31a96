"""Gradient accumulation over 8 micro-batches on digits."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
X, y = load_digits(return_X_y=True)
X = torch.tensor((X - 4.88) / 6.0, dtype=torch.float32)
y = torch.tensor(y)
train_loader = DataLoader(TensorDataset(X[:1440], y[:1440]), batch_size=12, shuffle=True)
ACCUM = 8

net = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for epoch in range(16):
    net.train()
    seen = 0.0
    sgd.zero_grad()
    for i, (xb, yb) in enumerate(train_loader):
        loss = criterion(net(xb), yb)
        loss.backward()
        seen += loss.item()
        if (i + 1) % ACCUM == 0:
            sgd.step()
            sgd.zero_grad()
    net.eval()
    with torch.no_grad():
        vl = criterion(net(X[1440:]), y[1440:]).item()
    print(f"epoch {epoch}: {seen / len(train_loader):.4f} / {vl:.4f}")
