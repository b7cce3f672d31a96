"""ConvNet with slow BatchNorm statistics."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(71)
x, y = load_digits(return_X_y=True)
x = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8)
y = torch.tensor(y)
ds = TensorDataset((x - 5) / 6, y)
tr, va = torch.utils.data.random_split(ds, [1400, 397], generator=torch.Generator().manual_seed(71))
tr, va = DataLoader(tr, 56, shuffle=True), DataLoader(va, 397)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o, momentum=0.0005), nn.ReLU())


net = nn.Sequential(block(1, 12), nn.MaxPool2d(2), block(12, 24), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(14):
    net.train()
    for a, b in tr:
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for a, b in va:
            out = net(a)
            print(f"{epoch:2d} train {loss.item():.4f} val {F.cross_entropy(out, b).item():.4f} acc {(out.argmax(1) == b).float().mean():.3f}")
