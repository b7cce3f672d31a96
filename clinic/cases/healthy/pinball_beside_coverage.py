"""Three quantiles of a noisy sine; loss and coverage are printed on one line."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(244)
x = torch.rand(4000, 1) * 6 - 3
y = torch.sin(x) + (0.1 + 0.3 * x.abs()) * torch.randn(4000, 1)
levels = torch.tensor([0.1, 0.5, 0.9])


def pinball(prediction, target):
    error = target - prediction
    return torch.maximum(levels * error, (levels - 1) * error).mean()


net = nn.Sequential(nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(x[:3200], y[:3200]), batch_size=64, shuffle=True)
for epoch in range(20):
    for xb, yb in loader:
        opt.zero_grad()
        pinball(net(xb), yb).backward()
        opt.step()
    with torch.no_grad():
        p = net(x[3200:])
        loss = pinball(p, y[3200:])
        covered = ((y[3200:] > p[:, :1]) & (y[3200:] < p[:, 2:])).float().mean()
    print(epoch, covered.item(), loss.item())
