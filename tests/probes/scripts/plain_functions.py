"""Functions, DataLoader, cross entropy, validation under no_grad."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 10)
y = (x[:, 0] + 0.3 * x[:, 1] > 0).long()
train = DataLoader(TensorDataset(x[:192], y[:192]), batch_size=32, shuffle=True)
val = DataLoader(TensorDataset(x[192:], y[192:]), batch_size=24)


def fit(model, optimizer):
    for epoch in range(3):
        model.train()
        for a, b in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
        print(epoch, repr(loss.item()), repr(evaluate(model)))


@torch.no_grad()
def evaluate(model):
    model.eval()
    return sum(F.cross_entropy(model(a), b).item() * len(a) for a, b in val) / 64


net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
fit(net, torch.optim.Adam(net.parameters(), lr=1e-2))
print([repr(p.sum().item()) for p in net.parameters()])
