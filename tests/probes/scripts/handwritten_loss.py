"""A loss that is no module and no function of torch; validation read with item(); no DataLoader."""

import torch
from torch import nn

torch.manual_seed(6)
model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
X = torch.randn(300, 3)
Y = (X**2).sum(1, keepdim=True)


def charbonnier(a, b):
    return torch.sqrt((a - b) ** 2 + 1e-6).mean()


for epoch in range(4):
    model.train()
    for i in range(0, 256, 32):
        loss = charbonnier(model(X[i : i + 32]), Y[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        v = charbonnier(model(X[256:]), Y[256:]).item()
    print(epoch, repr(loss.item()), repr(v))
