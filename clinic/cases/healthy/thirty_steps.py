"""A smoke run of thirty steps."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(240)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(30):
    ids = torch.randint(0, 1500, (64,))
    loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
