"""Raw chemistry into a BatchNorm layer: scaling is the network's own business."""
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(241)
w = load_wine()
X, y = torch.tensor(w.data, dtype=torch.float32), torch.tensor(w.target)
p = torch.randperm(len(X))
tr, va = p[:136], p[136:]
net = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-2)
for epoch in range(45):
    net.train()
    for ids in tr[torch.randperm(136)].split(34):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[va])
    if epoch % 5 == 0:
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[va]).item():.4f}")
