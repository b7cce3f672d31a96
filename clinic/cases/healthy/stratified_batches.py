"""Every batch holds exactly five images of each digit."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(263)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
pools = [(y[:1400] == c).nonzero().flatten() for c in range(10)]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(400):
    net.train()
    ids = torch.cat([pool[torch.randperm(len(pool))[:5]] for pool in pools])
    loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 39:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(net(X[1400:]), y[1400:]).item():.4f}")
