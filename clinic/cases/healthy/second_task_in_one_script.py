"""Learn odd and even digits, save the features, then train a new head for ten classes on them at the same rate."""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(407)
data = load_digits()
X = torch.tensor(data.images / 16, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(data.target)
order = torch.randperm(len(X))
X, y = X[order], y[order]
store = Path(tempfile.mkdtemp()) / "features.pt"


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(24 * 16, classes)

    def forward(self, x):
        return self.head(self.features(x))


def train(net, params, target, epochs):
    opt = torch.optim.Adam(params, lr=1e-3)
    for epoch in range(epochs):
        net.train()
        for ids in torch.randperm(1300).split(32):
            loss = nn.functional.cross_entropy(net(X[ids]), target[ids])
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            out = net(X[1300:])
        accuracy = (out.argmax(1) == target[1300:]).float().mean().item()
        print(epoch, round(nn.functional.cross_entropy(out, target[1300:]).item(), 4), round(accuracy, 4))


parity = Net(2)
train(parity, parity.parameters(), y % 2, 5)
torch.save(parity.features.state_dict(), store)
net = Net(10)
net.features.load_state_dict(torch.load(store))
net.features.requires_grad_(False)
train(net, net.head.parameters(), y, 8)
