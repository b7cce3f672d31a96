"""Cosine schedule that reaches zero exactly at the planned end."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(233)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
STEPS = 600
net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS)
for step in range(STEPS):
    net.train()
    ids = torch.randint(0, 1400, (64,))
    loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if (step + 1) % 40 == 0:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(net(X[1400:]), y[1400:]).item():.4f} lr {sched.get_last_lr()[0]:.2e}")
