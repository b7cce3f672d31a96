"""Long training on noisy tabular data: accuracy stays, confidence explodes."""
import torch
from torch import nn

torch.manual_seed(93)
n = 3000
x = torch.randn(n, 20)
p = torch.sigmoid(1.6 * (x[:, 0] + x[:, 1] - x[:, 2]))
y = torch.bernoulli(p).long()
tr, va = slice(0, 600), slice(600, 3000)
net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
for epoch in range(60):
    net.train()
    for ids in torch.randperm(600).split(30):
        loss = nn.functional.cross_entropy(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[va])
        if epoch % 4 == 0:
            print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[va]).item():.4f} acc {(out.argmax(1) == y[va]).float().mean():.4f}")
