"""Residual MLP whose depth is an option."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEPTH = 4
torch.manual_seed(42)


class ResidualMLP(nn.Module):
    def __init__(self, width=64, depth=DEPTH):
        super().__init__()
        self.inp = nn.Linear(64, width)
        self.blocks = [nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(depth)]
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(self.norm(x))


data, label = load_digits(return_X_y=True)
data = torch.as_tensor(data / 16, dtype=torch.float32)
label = torch.as_tensor(label)
full = TensorDataset(data, label)
tr, va = torch.utils.data.random_split(full, [1500, 297], generator=torch.Generator().manual_seed(42))
tr = DataLoader(tr, 75, shuffle=True)
va = DataLoader(va, 297)

model = ResidualMLP()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
for epoch in range(14):
    model.train()
    for a, b in tr:
        loss = nn.functional.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        for a, b in va:
            z = model(a)
            print(epoch, round(loss.item(), 3), round(nn.functional.cross_entropy(z, b).item(), 3), round((z.argmax(1) == b).float().mean().item(), 3))
