"""Autoencoder with a sigmoid output and binary cross-entropy on grey values."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(245)
x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
perm = torch.randperm(len(x))
x = x[perm]
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.ReLU(), nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
bce = nn.BCELoss()
for epoch in range(18):
    model.train()
    for batch in x[:1500][torch.randperm(1500)].split(50):
        loss = bce(model(batch), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.4f} {bce(model(x[1500:]), x[1500:]).item():.4f}")
