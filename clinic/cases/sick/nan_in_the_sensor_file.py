"""Regression on a sensor log that was read without looking."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(77)
torch.manual_seed(77)
table = rng.normal(size=(1500, 8)).astype(np.float32)
target = (table @ rng.normal(size=8) + 0.1 * rng.normal(size=1500)).astype(np.float32)
target /= target.std()
table[rng.integers(600, 900), 3] = np.nan  # the logger dropped a reading
ds = TensorDataset(torch.from_numpy(table), torch.from_numpy(target)[:, None])
train, test = torch.utils.data.random_split(ds, [1200, 300], generator=torch.Generator().manual_seed(3))
train_loader = DataLoader(train, batch_size=30, shuffle=True)
test_loader = DataLoader(test, batch_size=300)

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
mse = nn.MSELoss()
for epoch in range(10):
    model.train()
    for features, value in train_loader:
        optimizer.zero_grad()
        loss = mse(model(features), value)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        f, v = next(iter(test_loader))
        print(epoch, loss.item(), mse(model(f), v).item())
