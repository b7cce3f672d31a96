"""CNN with dropout and BatchNorm; validation forgets eval()."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(94)
x = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(load_digits().target)
perm = torch.randperm(len(x))
x, y = x[perm], y[perm]
model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.4),
    nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.4), nn.Linear(96, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def evaluate(model):
    total, hits = 0.0, 0
    with torch.no_grad():
        for i in range(1400, 1797, 100):
            out = model(x[i : i + 100])
            total += F.cross_entropy(out, y[i : i + 100], reduction="sum").item()
            hits += (out.argmax(1) == y[i : i + 100]).sum().item()
    return total / 397, hits / 397


for epoch in range(10):
    model.train()
    for ids in torch.randperm(1400).split(56):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[ids]), y[ids])
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.4f} val %.4f acc %.3f" % evaluate(model))
