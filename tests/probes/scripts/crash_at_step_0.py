"""The very first loss raises: one class too many."""

import torch
from torch import nn

torch.manual_seed(3)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 2, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
