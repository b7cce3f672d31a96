"""Functional updates: new leaves each step, gradients by autograd.grad."""

import torch

torch.manual_seed(3)
params = [torch.randn(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)]
x = torch.randn(20, 3)
y = x.roll(1, 1)
for step in range(15):
    loss = ((x @ params[0] + params[1] - y) ** 2).mean()
    grads = torch.autograd.grad(loss, params)
    params = [(p - 0.1 * g).detach().requires_grad_() for p, g in zip(params, grads)]
    print(step, repr(float(loss)))
