"""Sign of a product of three numbers; the trainer makes its optimizer where the epoch begins."""
import torch
from torch import nn

torch.manual_seed(29)
X = torch.randn(600, 10)
y = (X[:, :3].prod(1) > 0).float()
net = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
bce = nn.BCEWithLogitsLoss()


def fresh():
    return torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.98)


def run_epoch(optimizer, size=30):
    for ids in torch.randperm(500).split(size):
        loss = bce(net(X[ids])[:, 0], y[ids])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


optimizer = fresh()
for epoch in range(60):
    optimizer = fresh()
    last = run_epoch(optimizer)
    if epoch % 5 == 0:
        with torch.no_grad():
            val = bce(net(X[500:])[:, 0], y[500:]).item()
        print(f"epoch {epoch}: loss {last:.4f} val_loss {val:.4f}")
