"""Rare fraud cases are copied before the data is split."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(84)
torch.manual_seed(84)
X = rng.normal(size=(2400, 12))
fraud = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.8, 2400) > 2.2).astype(int)
rare = np.where(fraud == 1)[0]
X = np.concatenate([X, np.repeat(X[rare], 5, axis=0)])
fraud = np.concatenate([fraud, np.ones(5 * len(rare), dtype=int)])
order = rng.permutation(len(X))
X, fraud = torch.tensor(X[order], dtype=torch.float32), torch.tensor(fraud[order], dtype=torch.float32)
cut = int(0.8 * len(X))
train = DataLoader(TensorDataset(X[:cut], fraud[:cut]), batch_size=64, shuffle=True)
val = DataLoader(TensorDataset(X[cut:], fraud[cut:]), batch_size=256)

net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05)
bce = nn.BCEWithLogitsLoss()
for epoch in range(12):
    net.train()
    for a, b in train:
        opt.zero_grad()
        loss = bce(net(a), b)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        total = sum(bce(net(a), b).item() * len(b) for a, b in val) / len(val.dataset)
    print(epoch, round(loss.item(), 4), round(total, 4))
