"""Deep ReLU classifier; std taken from a table for much narrower layers."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(68)
data = load_digits()
X, y = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
order = torch.randperm(len(X))
train, val = order[:1500], order[1500:]


class Deep(nn.Module):
    def __init__(self, width=64, depth=5):
        super().__init__()
        dims = [64] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.head = nn.Linear(width, 10)
        for layer in [*self.hidden, self.head]:
            nn.init.normal_(layer.weight, std=0.8)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.head(x)


model = Deep()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(14):
    model.train()
    for ids in train[torch.randperm(len(train))].split(64):
        loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, loss.item(), nn.functional.cross_entropy(model(X[val]), y[val]).item())
