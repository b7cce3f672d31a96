"""A deep sigmoid network, trained the way it was done in 1990."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(63)
X, t = load_digits(return_X_y=True)
X = torch.tensor((X - X.mean()) / X.std(), dtype=torch.float32)
t = torch.tensor(t)
split = torch.randperm(len(X))
train_ids, test_ids = split[:1500], split[1500:]


def tower(depth=8, width=48):
    layers, d = [], 64
    for _ in range(depth):
        layers += [nn.Linear(d, width), nn.Sigmoid()]
        d = width
    return nn.Sequential(*layers, nn.Linear(d, 10))


model = tower()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(25):
    model.train()
    for ids in train_ids[torch.randperm(1500)].split(50):
        optimizer.zero_grad()
        loss = loss_fn(model(X[ids]), t[ids])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.4f} {loss_fn(model(X[test_ids]), t[test_ids]).item():.4f}")
