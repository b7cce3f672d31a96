"""Gradient accumulation over four micro-batches, loss divided."""

import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for step in range(12):
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for _ in range(4):
        x = torch.randn(8, 8)
        loss = criterion(model(x), (x[:, :4]).argmax(1)) / 4
        loss.backward()
        total += loss.item()
    optimizer.step()
    print(step, repr(total))
