"""Classify handwritten digits. The learning rate should fall by half every eight epochs."""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, digits = load_digits(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(images / 16.0, digits, test_size=0.2, random_state=0)


def loader(x, y, shuffle):
    data = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
    return DataLoader(data, batch_size=32, shuffle=shuffle)


train, val = loader(x_train, y_train, True), loader(x_val, y_val, False)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
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
        batches = [(loss_fn(model(x), y).item(), (model(x).argmax(1) == y).sum().item(), len(y)) for x, y in val]
    total = sum(n for _, _, n in batches)
    print(
        f"epoch {epoch:2d}  val loss {sum(v * n for v, _, n in batches) / total:.3f}"
        f"  accuracy {sum(k for _, k, _ in batches) / total:.3f}"
    )
