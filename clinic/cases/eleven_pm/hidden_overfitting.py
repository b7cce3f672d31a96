"""11 PM: the dashboard shows the best validation loss so far, so it looks flat."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(304)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
wrong = torch.rand(len(y)) < 0.2
y[wrong] = torch.randint(0, 10, (int(wrong.sum()),))
net = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
best = float("inf")
for epoch in range(50):
    net.train()
    for ids in torch.randperm(700).split(35):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(net(X[700:]), y[700:]).item()
    best = min(best, val)
    if epoch % 3 == 0:
        print(f"epoch {epoch} train {loss.item():.4f} best val {best:.4f}")
