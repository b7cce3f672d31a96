"""Digits sorted by label in the file, no shuffling in the loader."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(83)
X, y = load_digits(return_X_y=True)
held = torch.randperm(len(X))[:300]
mask = torch.ones(len(X), dtype=torch.bool)
mask[held] = False
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
Xt, yt = X[mask], y[mask]
order = torch.argsort(yt)
loader = DataLoader(TensorDataset(Xt[order], yt[order]), batch_size=30)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(14):
    model.train()
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(X[held])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[held]).item():.4f} {(out.argmax(1) == y[held]).float().mean():.3f}")
