"""Rare disease screening: one patient in forty is ill."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(89)
n = 4000
x = torch.randn(n, 8)
risk = x[:, 0] + x[:, 1] + 1.2 * torch.randn(n)
ill = (risk > risk.quantile(0.975)).long()
loader = DataLoader(TensorDataset(x[:3200], ill[:3200]), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.003)
for epoch in range(5):
    net.train()
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[3200:])
        pred = out.argmax(1)
    print(f"epoch {epoch} val loss {nn.functional.cross_entropy(out, ill[3200:]).item():.4f} accuracy {(pred == ill[3200:]).float().mean():.4f}")
