"""House prices from six features, in full."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(41)
torch.manual_seed(41)
n = 4000
features = rng.normal(size=(n, 6)).astype("float32")
price = 300_000 + 60_000 * features[:, 0] - 30_000 * features[:, 1] + 20_000 * features[:, 2] * features[:, 3]
price = (price + rng.normal(0, 10_000, n)).astype("float32")
X, y = torch.tensor(features), torch.tensor(price)[:, None]

net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(X[:3200], y[:3200]), batch_size=64, shuffle=True)
for epoch in range(25):
    net.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(xb), yb)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, nn.functional.mse_loss(net(X[3200:]), y[3200:]).item())
