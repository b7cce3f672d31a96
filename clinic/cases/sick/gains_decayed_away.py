"""Deep normalised MLP; one decay for everything, and a large one for the norm gains' group."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(123)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(
    nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)
)
matrices = [q for q in net.parameters() if q.dim() > 1]
vectors = [q for q in net.parameters() if q.dim() == 1]
opt = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 90.0}], lr=2e-3)
for epoch in range(16):
    net.train()
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f} gain {net[1].weight.abs().median().item():.4f}")
