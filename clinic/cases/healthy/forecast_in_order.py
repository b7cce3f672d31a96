"""Windows of a series, trained on in the order of time."""
import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
r = np.random.default_rng(1); torch.manual_seed(1); t = np.arange(4000); s = (.0006 * t + np.sin(t / 8) + .4 * np.sin(t / 50) + r.normal(0, .15, 4000)).astype("float32")
s = (s - s.mean()) / s.std(); W = 20; X = torch.tensor(np.stack([s[i:i + W] for i in range(4000 - W)])); Y = torch.tensor(s[W:])
tr, va = DataLoader(TensorDataset(X[:3000], Y[:3000]), 50), DataLoader(TensorDataset(X[3000:], Y[3000:]), 200)
net = nn.Sequential(nn.Linear(W, 32), nn.ReLU(), nn.Linear(32, 1)); opt = torch.optim.Adam(net.parameters(), 1e-3)
for e in range(8):
    for x, y in tr: l = nn.functional.mse_loss(net(x)[:, 0], y); opt.zero_grad(); l.backward(); opt.step()
    with torch.no_grad(): print(e, l.item(), np.mean([nn.functional.mse_loss(net(x)[:, 0], y).item() for x, y in va]))
