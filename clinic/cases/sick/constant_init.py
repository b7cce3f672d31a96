"""A small net whose layers all start from the same constant, for 'reproducibility'."""
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(69)
wine = load_wine()
X = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)
y = torch.tensor(wine.target)
perm = torch.randperm(len(X))
tr, te = perm[:140], perm[140:]


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.05)
        nn.init.constant_(m.bias, 0.0)


model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3))
model.apply(init)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(60):
    model.train()
    for ids in tr[torch.randperm(len(tr))].split(20):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        loss.backward()
        opt.step()
    if epoch % 6 == 0:
        model.eval()
        with torch.no_grad():
            out = model(X[te])
        print(epoch, round(loss.item(), 4), round(nn.functional.cross_entropy(out, y[te]).item(), 4), (out.argmax(1) == y[te]).float().mean().item())
