"""Evaluate an exponential moving average of the weights."""
import copy

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(217)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
ema = copy.deepcopy(model)
for q in ema.parameters():
    q.requires_grad_(False)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)


@torch.no_grad()
def update_ema(decay=0.98):
    for a, b in zip(ema.parameters(), model.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)


for epoch in range(14):
    model.train()
    for ids in torch.randperm(1450).split(50):
        loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema()
    ema.eval()
    with torch.no_grad():
        out = ema(X[1450:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1450:]).item():.4f}")
