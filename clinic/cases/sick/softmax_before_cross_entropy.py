import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(0)
wine = load_wine()
X = torch.tensor(wine.data, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
Y = torch.tensor(wine.target)
split = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
fit, held = split[:130], split[130:]


class WineNet(nn.Module):
    """13 measurements in, probabilities of three growers out."""

    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(13, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 3))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        return self.softmax(self.layers(x))


def batches(ids, size=26):
    for chunk in ids[torch.randperm(len(ids))].split(size):
        yield X[chunk], Y[chunk]


model = WineNet()
criterion = nn.CrossEntropyLoss()
optimiser = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
for epoch in range(1, 101):
    model.train()
    for features, grower in batches(fit):
        optimiser.zero_grad()
        loss = criterion(model(features), grower)
        loss.backward()
        optimiser.step()
    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad():
            p = model(X[held])
            print(f"{epoch:3d} loss {loss.item():.4f} held-out {criterion(p, Y[held]).item():.4f} acc {(p.argmax(1) == Y[held]).float().mean():.3f}")
