"""IterableDataset: an endless stream, no epochs, no length."""
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            x = torch.randn(10, generator=g)
            yield x, (x[0] * x[1] + x[2] > 0).long()


torch.manual_seed(237)
loader = iter(DataLoader(Stream(0), batch_size=48))
held = DataLoader(Stream(999), batch_size=500)
vx, vy = next(iter(held))
net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(500):
    net.train()
    x, y = next(loader)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(net(vx), vy).item():.4f}")
