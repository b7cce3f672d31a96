"""Residual branches start at zero: their first layers have no gradient in the first step."""
import torch
from sklearn.datasets import load_digits
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


torch.manual_seed(264)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 48), Block(48), Block(48), Block(48), nn.LayerNorm(48), nn.Linear(48, 10))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(8):
    net.train()
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
