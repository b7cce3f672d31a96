"""11 PM: the loss fell nicely until a restart of the optimizer with a typo in the rate."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(309)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
KICK = 0.3
step = 0
for epoch in range(30):
    net.train()
    for ids in torch.randperm(1400).split(50):
        for group in opt.param_groups:
            group["lr"] = KICK if 140 <= step < 146 else 2e-4 if step > 146 else 1e-3
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(f"epoch {epoch} train {loss.item():.4f} val {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
