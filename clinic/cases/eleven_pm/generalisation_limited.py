"""11 PM: training still creeps down, validation has been flat for two hours."""
import torch
from torch import nn

torch.manual_seed(303)
n, d = 2400, 30
x = torch.randn(n, d)
y = (x[:, :3].sum(1) + 1.2 * torch.randn(n) > 0).long()
tr, va = slice(0, 900), slice(900, n)
net = nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
opt = torch.optim.AdamW(net.parameters(), lr=5e-4, weight_decay=0.3)
for epoch in range(55):
    net.train()
    total = 0
    for ids in torch.randperm(900).split(30):
        loss = nn.functional.cross_entropy(net(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        out = net(x[va])
    if epoch % 3 == 0:
        print(f"{epoch} train {total / 30:.4f} val {nn.functional.cross_entropy(out, y[va]).item():.4f}")
