"""One positive in twenty, a weighted sampler and recall as the metric."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(230)
x = torch.randn(4000, 10)
y = (x[:, 0] + x[:, 1] + 0.4 * torch.randn(4000) > 2.4).long()
xt, yt, xv, yv = x[:3200], y[:3200], x[3200:], y[3200:]
weights = torch.where(yt == 1, 1 / (yt == 1).float().mean(), 1 / (yt == 0).float().mean())
loader = DataLoader(TensorDataset(xt, yt), batch_size=64, sampler=WeightedRandomSampler(weights, 3200))
net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05)
for epoch in range(10):
    net.train()
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(xv)
        pred = out.argmax(1)
        recall = (pred[yv == 1] == 1).float().mean()
        precision = (yv[pred == 1] == 1).float().mean()
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, yv).item():.4f} recall {recall:.3f} precision {precision:.3f}")
