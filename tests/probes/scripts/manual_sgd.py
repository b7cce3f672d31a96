"""Weights without a module, updated by hand under no_grad."""

import torch

torch.manual_seed(2)
w1 = torch.randn(4, 8, requires_grad=True)
w2 = torch.randn(8, 1, requires_grad=True)
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
for step in range(25):
    loss = ((torch.tanh(x @ w1) @ w2 - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for w in (w1, w2):
            w -= 0.03 * w.grad
            w.grad.zero_()
    if step % 5 == 0:
        print(step, repr(loss.item()))
