"""Fit a noisy surface with a two-layer network."""
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.manual_seed(12)


def surface(p):
    return torch.sin(2 * p[:, 0]) + 0.5 * p[:, 1] ** 2 - p[:, 2]


points = torch.rand(1500, 3) * 4 - 2
values = surface(points) + 0.05 * torch.randn(1500)
values = (values - values.mean()) / values.std()
train_dl = DataLoader(TensorDataset(points[:1200], values[:1200]), batch_size=60, shuffle=True)
val_p, val_v = points[1200:], values[1200:]

f = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
optimizer = torch.optim.AdamW(f.parameters(), lr=4e-3)
loss_fn = nn.MSELoss()
for epoch in range(25):
    f.train()
    acc = 0.0
    for p, v in train_dl:
        optimizer.zero_grad()
        loss = loss_fn(f(p), v)
        loss.backward()
        optimizer.step()
        acc += loss.item()
    f.eval()
    with torch.no_grad():
        val = loss_fn(f(val_p), val_v).item()
    print(f"{epoch:02d} {acc / len(train_dl):.4f} {val:.4f}")
