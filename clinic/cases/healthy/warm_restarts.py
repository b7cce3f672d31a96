"""SGDR on digits: the learning rate jumps back up every five epochs."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(200)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
perm = torch.randperm(len(X))
loader = DataLoader(TensorDataset(X[perm[:1400]], y[perm[:1400]]), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-3)
sched = CosineAnnealingWarmRestarts(opt, T_0=5 * len(loader), eta_min=1e-3)
for epoch in range(20):
    model.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        sched.step()
    model.eval()
    with torch.no_grad():
        out = model(X[perm[1400:]])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[perm[1400:]]).item():.4f}")
