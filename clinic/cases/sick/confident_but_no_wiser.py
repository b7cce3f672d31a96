"""Nine easy classes and one pair of twins nobody can tell apart; label smoothing does the rest."""
import torch
from torch import nn

torch.manual_seed(118)
n = 2400
y = torch.randint(0, 2, (n,))
x = torch.randn(n, 10)
easy = torch.rand(n) < 0.7
x[easy, 0] += (y[easy] * 2.0 - 1) * 4
w = torch.tensor([1.0, 1.0])
net = nn.Sequential(nn.Linear(10, 6), nn.ReLU(), nn.Linear(6, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
for epoch in range(40):
    net.train()
    for ids in torch.randperm(2000).split(50):
        loss = nn.functional.cross_entropy(net(x[ids]), y[ids], weight=w)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[2000:])
    if epoch % 4 == 0:
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[2000:]).item():.4f} {(out.argmax(1) == y[2000:]).float().mean():.4f}")
