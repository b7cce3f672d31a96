"""Training in a thread, warnings with a stack level, and a caught exception whose traceback is printed."""

import sys
import threading
import traceback
import warnings

import torch
from torch import nn

warnings.simplefilter("always")
warnings.showwarning = lambda message, category, filename, lineno, *rest: print(
    category.__name__, filename.rpartition("/")[2], lineno
)


def work():
    torch.manual_seed(20)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scheduler.step()
    for step in range(6):
        loss = nn.functional.mse_loss(model(torch.randn(8, 3)), torch.randn(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, repr(loss.item()))
    try:
        nn.functional.nll_loss(model(torch.randn(8, 3)), torch.full((8,), 5))
    except Exception:
        traceback.print_exc(file=sys.stdout)
    try:
        model(torch.randn(8, 4))
    except RuntimeError:
        traceback.print_exc(file=sys.stdout)
    try:
        torch.zeros(1).backward()
    except RuntimeError:
        traceback.print_exc(file=sys.stdout)


thread = threading.Thread(target=work)
thread.start()
