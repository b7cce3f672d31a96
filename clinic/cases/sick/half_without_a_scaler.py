"""fp16 autocast, no GradScaler, and a loss scaled down for logging."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(124)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
PER_DATASET = 1400 * 10
for epoch in range(12):
    net.train()
    for ids in torch.randperm(1400).split(50):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(X[ids]), y[ids]) / PER_DATASET
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(epoch, f"{loss.item() * PER_DATASET:.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
