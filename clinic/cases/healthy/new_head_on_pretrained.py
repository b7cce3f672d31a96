"""Fine-tune a pretrained trunk with a fresh head: low rate for the trunk, higher for the head."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(223)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
small = (y < 5).nonzero().flatten()


def net(classes):
    return nn.ModuleDict({"trunk": nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU()), "head": nn.Linear(64, classes)})


def predict(m, x):
    return m["head"](m["trunk"](x))


first = net(5)
opt = torch.optim.Adam(first.parameters(), lr=1e-3)
for _ in range(250):
    ids = small[torch.randint(0, 600, (64,))]
    opt.zero_grad()
    nn.functional.cross_entropy(predict(first, X[ids]), y[ids]).backward()
    opt.step()
model = net(10)
model["trunk"].load_state_dict(first["trunk"].state_dict())
opt = torch.optim.AdamW([{"params": model["trunk"].parameters(), "lr": 2e-4}, {"params": model["head"].parameters(), "lr": 2e-3}])
for epoch in range(14):
    model.train()
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(predict(model, X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = predict(model, X[1400:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
