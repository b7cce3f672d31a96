"""Tell eight shapes apart. The learning rate should fall by half every eight epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
shapes = torch.randn(8, 64)
y = torch.arange(1600) % 8
x = shapes[y] + 2.0 * torch.randn(1600, 64)
train, val = random_split(TensorDataset(x, y), [1280, 320])
train, val = DataLoader(train, 32, shuffle=True), DataLoader(val, 32)

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 8))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8, gamma=0.5)

for epoch in range(10):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in val)
        loss = sum(loss_fn(model(x), y).item() for x, y in val) / len(val)
        print(f"epoch {epoch:2d}  val loss {loss:.3f}  accuracy {right / 320:.3f}")
