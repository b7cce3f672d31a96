"""Wine with twenty held-out bottles: validation numbers jump by design."""
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(213)
w = load_wine()
X, y = torch.tensor((w.data - w.data.mean(0)) / w.data.std(0), dtype=torch.float32), torch.tensor(w.target)
p = torch.randperm(len(X))
tr, va = p[:158], p[158:]
net = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=5e-3)
for epoch in range(40):
    net.train()
    for ids in tr[torch.randperm(158)].split(16):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[va])
    if epoch % 4 == 0:
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[va]).item():.4f} {(out.argmax(1) == y[va]).float().mean():.2f}")
