"""LBFGS with a closure."""

import torch

torch.manual_seed(1)
model = torch.nn.Linear(5, 1)
x = torch.randn(40, 5)
y = x @ torch.arange(5.0).unsqueeze(1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(8):
    loss = optimizer.step(closure)
    print(step, repr(loss.item()))
