"""Low-rank adapters on a network pretrained on upright digits, tuned on noisy ones."""
import torch
from sklearn.datasets import load_digits
from torch import nn

SEED = 0
EPOCHS = 8
BATCH = 50
LR = 2e-3
RANK = 4

torch.manual_seed(SEED)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(X))
X, y = X[order], y[order]
shifted = torch.roll(X.view(-1, 8, 8), 1, 2).flatten(1)


class Adapter(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, inner.in_features) / inner.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(inner.out_features, RANK))

    def forward(self, x):
        return self.inner(x) + x @ self.down.t() @ self.up.t()


model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
base_opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(150):
    ids = torch.randint(0, 1400, (64,))
    base_opt.zero_grad()
    nn.functional.cross_entropy(model(X[ids]), y[ids]).backward()
    base_opt.step()

for i in (0, 2, 4):
    model[i] = Adapter(model[i])
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
for epoch in range(EPOCHS):
    model.train()
    for ids in torch.randperm(1400).split(BATCH):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(shifted[ids]), y[ids])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(model(shifted[1400:]), y[1400:]).item()
    print(epoch, round(loss.item(), 4), round(val, 4))
