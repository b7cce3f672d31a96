"""Leaves by sys.exit with a code of its own, after an atexit handler and from inside a function."""

import atexit
import sys

import torch

atexit.register(print, "bye")
torch.manual_seed(10)
w = torch.nn.Parameter(torch.randn(3))
optimizer = torch.optim.SGD([w], 0.1)


def train():
    for step in range(100):
        loss = (w**2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            print("done at", step)
            sys.exit(7)


train()
