"""Early stopping on a dozen validation rows."""
import copy

import torch
from torch import nn

torch.manual_seed(97)
n = 1500
x = torch.randn(n, 15)
y = (x[:, :3].sum(1) + 1.8 * torch.randn(n) > 0).long()
xt, yt, xv, yv = x[:1480], y[:1480], x[1488:], y[1488:]
net = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-3)
best, best_state, patience = float("inf"), None, 0
for epoch in range(40):
    net.train()
    for ids in torch.randperm(len(xt)).split(40):
        loss = nn.functional.cross_entropy(net(xt[ids]), yt[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(xv)
        val, acc = nn.functional.cross_entropy(out, yv).item(), (out.argmax(1) == yv).float().mean().item()
    print(f"{epoch:2d} {loss.item():.4f} {val:.4f} {acc:.3f}")
    if val < best:
        best, best_state, patience = val, copy.deepcopy(net.state_dict()), 0
    else:
        patience += 1
        if patience == 10:
            break
