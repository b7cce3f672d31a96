"""Digits where images and labels are shuffled one after the other."""
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(82)
torch.manual_seed(82)
images, labels = load_digits(return_X_y=True)
images = images / 16.0
rng.shuffle(images)
rng.shuffle(labels)
X, y = torch.tensor(images, dtype=torch.float32), torch.tensor(labels)
train_loader = DataLoader(TensorDataset(X[:1500], y[:1500]), batch_size=50, shuffle=True)
valid_loader = DataLoader(TensorDataset(X[1500:], y[1500:]), batch_size=297)

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(14):
    model.train()
    total = 0
    for a, b in train_loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        for a, b in valid_loader:
            out = model(a)
    print(f"{epoch} train {total / len(train_loader):.4f} val {nn.functional.cross_entropy(out, b).item():.4f} acc {(out.argmax(1) == b).float().mean():.3f}")
