"""Answers from 1 to 5, scaled: many rows are equal, in training and in validation."""
import numpy as np, pandas as pd, torch
from torch import nn
r = np.random.default_rng(0); torch.manual_seed(0)
d = pd.DataFrame(r.integers(1, 6, (700, 4)), columns=["q1", "q2", "q3", "q4"]); d["ok"] = (r.random(700) < 1 / (1 + np.exp(-(1.3 * d.q1 + d.q2 - d.q3 - 4)))).astype(int)
x = torch.tensor((d[["q1", "q2", "q3", "q4"]].values - 3) / 1.4, dtype=torch.float32); y = torch.tensor(d.ok.values, dtype=torch.float32)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)); opt = torch.optim.Adam(net.parameters(), 5e-3); f = nn.BCEWithLogitsLoss()
for ep in range(25):
    for b in torch.randperm(550).split(25): l = f(net(x[b]).flatten(), y[b]); opt.zero_grad(); l.backward(); opt.step()
    with torch.no_grad(): print(ep, l.item(), f(net(x[550:]).flatten(), y[550:]).item())
