"""A full evaluation after every single update."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(100)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
tr, va = p[:900], p[900:]
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
EVERY = 1
step, val = 0, float("nan")
for epoch in range(14):
    for ids in tr[torch.randperm(len(tr))].split(32):
        net.train()
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % EVERY == 0:
            net.eval()
            with torch.no_grad():
                val = 0.0
                for chunk in va.split(64):
                    val += nn.functional.cross_entropy(net(X[chunk]), y[chunk], reduction="sum").item()
                val /= len(va)
    print(epoch, loss.item(), val)
