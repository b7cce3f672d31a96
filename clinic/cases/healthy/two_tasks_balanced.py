"""Shared trunk, a classification and a regression head with sensible weights."""
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(235)
w = load_wine()
data = torch.tensor((w.data - w.data.mean(0)) / w.data.std(0), dtype=torch.float32)
x, alcohol, grower = data[:, 1:], data[:, :1], torch.tensor(w.target)
p = torch.randperm(len(x))
tr, va = p[:140], p[140:]


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
        self.cls, self.reg = nn.Linear(24, 3), nn.Linear(24, 1)

    def forward(self, x):
        h = self.trunk(x)
        return {"grower": self.cls(h), "alcohol": self.reg(h)}


net = Multi()
opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-2)


def losses(ids):
    out = net(x[ids])
    return nn.functional.cross_entropy(out["grower"], grower[ids]), nn.functional.mse_loss(out["alcohol"], alcohol[ids])


for epoch in range(40):
    net.train()
    for ids in tr[torch.randperm(140)].split(20):
        a, b = losses(ids)
        loss = a + 0.5 * b
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        a, b = losses(va)
    if epoch % 4 == 0:
        print(epoch, f"{loss.item():.4f} grower {a.item():.4f} alcohol {b.item():.4f}")
