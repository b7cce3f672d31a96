"""Likelihood summed over the batch with a learning rate to match: gradient norms in the hundreds."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(257)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9)
for epoch in range(14):
    net.train()
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids], reduction="sum")
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(net(X[1400:]), y[1400:], reduction="sum") / len(X[1400:])
    print(epoch, round(loss.item() / len(ids), 4), round(val.item(), 4))
