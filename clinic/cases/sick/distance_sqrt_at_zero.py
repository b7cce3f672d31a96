"""Metric learning on digits: pull same-class pairs together, push others apart."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(10)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32) / 16
y = torch.tensor(y)
embed = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
optim = torch.optim.Adam(embed.parameters(), lr=1e-3)
MARGIN = 1.0


def pair_distances(z):
    diff = z.unsqueeze(1) - z.unsqueeze(0)
    return torch.sqrt((diff**2).sum(-1))


def contrastive(z, labels):
    d = pair_distances(z)
    same = (labels[:, None] == labels[None, :]).float()
    push = torch.relu(MARGIN - d) ** 2
    return (same * d**2 + (1 - same) * push).mean()


for step in range(400):
    embed.train()
    i = torch.randint(0, 1500, (48,))
    loss = contrastive(embed(X[i]), y[i])
    optim.zero_grad()
    loss.backward()
    optim.step()
    if step % 40 == 0:
        embed.eval()
        with torch.no_grad():
            val = contrastive(embed(X[1500:]), y[1500:]).item()
        print(step, round(loss.item(), 4), round(val, 4))
