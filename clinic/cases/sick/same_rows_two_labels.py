"""Reviews collected twice: identical texts with opposite stars."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(88)
base = torch.randn(1200, 16)
stars = (base[:, :3].sum(1) > 0).long()
twice = torch.cat([base, base[:500]])
label = torch.cat([stars, 1 - stars[:500]])  # second annotator used the other scale
perm = torch.randperm(len(twice))
x, y = twice[perm], label[perm]
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
fresh = torch.randn(300, 16)
fresh_y = (fresh[:, :3].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(14):
    net.train()
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        out = net(fresh)
    print(epoch, f"{total / len(loader):.4f} {nn.functional.cross_entropy(out, fresh_y).item():.4f} {(out.argmax(1) == fresh_y).float().mean():.3f}")
