"""A weighted sampler that was given one weight per class instead of one per sample."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
torch.manual_seed(4)
n = 2000
y = (torch.rand(n) < .15).long(); x = torch.randn(n, 10) + y[:, None] * .6
w = 1. / torch.bincount(y).float()
sampler = WeightedRandomSampler(w, num_samples=n, replacement=True)
dl = DataLoader(TensorDataset(x, y), batch_size=50, sampler=sampler)
vy = (torch.rand(500) < .15).long(); vx = torch.randn(500, 10) + vy[:, None] * .6
m = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)); o = torch.optim.Adam(m.parameters(), 1e-3)
for e in range(8):
    m.train()
    for a, b in dl: l = nn.functional.cross_entropy(m(a), b); o.zero_grad(); l.backward(); o.step()
    m.eval()
    with torch.no_grad(): lo = m(vx); print(e, l.item(), nn.functional.cross_entropy(lo, vy).item(), (lo.argmax(1) == vy).float().mean().item())
