"""Learn digits 0-4, then 5-9, and look at the first task from time to time."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(109)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
old, new = (y < 5).nonzero().flatten(), (y >= 5).nonzero().flatten()
net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)


def learn(pool, epochs, tag, replay=None):
    for epoch in range(epochs):
        net.train()
        for ids in pool[torch.randperm(len(pool))].split(32):
            if replay is not None:
                ids = torch.cat([ids, replay[torch.randint(0, len(replay), (16,))]])
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            probe = nn.functional.cross_entropy(net(X[old[700:]]), y[old[700:]]).item()
        print(f"{tag} {epoch} train {loss.item():.4f} old-task val {probe:.4f}")


learn(old[:700], 12, "old")
learn(new[:700], 12, "new")
