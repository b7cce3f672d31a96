"""AdamW with a decay copied from another code base."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(58)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 8 - 1, torch.tensor(y)
p = torch.randperm(len(x))
tr, te = p[:1437], p[1437:]
net = nn.Sequential(nn.Linear(64, 100), nn.Tanh(), nn.Linear(100, 100), nn.Tanh(), nn.Linear(100, 10))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=60.0)
for epoch in range(22):
    net.train()
    for ids in tr[torch.randperm(len(tr))].split(60):
        loss = nn.functional.cross_entropy(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[te])
    print(epoch, f"{loss.item():.4f}", f"{nn.functional.cross_entropy(out, y[te]).item():.4f}", f"{(out.argmax(1) == y[te]).float().mean():.3f}")
