"""Saves the model every few epochs, and only the model."""
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(114)
d = load_wine()
X, y = torch.tensor((d.data - d.data.mean(0)) / d.data.std(0), dtype=torch.float32), torch.tensor(d.target)
perm = torch.randperm(len(X))
tr, te = perm[:140], perm[140:]
out_dir = Path(tempfile.mkdtemp())
net = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.02)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=40)
for epoch in range(40):
    net.train()
    for ids in tr[torch.randperm(140)].split(20):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(net(X[te]), y[te]).item()
    if epoch % 10 == 9:
        torch.save({"epoch": epoch, "model": net.state_dict(), "optimizer": opt.state_dict()}, out_dir / f"e{epoch}.pt")
        print(epoch, loss.item(), val)
