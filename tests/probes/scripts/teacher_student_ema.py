"""Distillation with a frozen teacher, an EMA copy by deepcopy, evaluation of the copy, and pickling of the model."""

import copy
import pickle

import torch
from torch import nn

torch.manual_seed(17)
teacher = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3)).requires_grad_(False).eval()
student = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
ema = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), 3e-3)
kl = nn.KLDivLoss(reduction="batchmean")
for step in range(20):
    x = torch.randn(32, 6)
    with torch.no_grad():
        target = teacher(x).softmax(1)
    loss = kl(student(x).log_softmax(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), student.parameters()):
            a.mul_(0.9).add_(b, alpha=0.1)
    if step % 5 == 4:
        with torch.no_grad():
            x = torch.randn(64, 6)
            print(step, repr(loss.item()), repr(kl(ema(x).log_softmax(1), teacher(x).softmax(1)).item()))
clone = pickle.loads(pickle.dumps(student))
print(
    all(torch.equal(a, b) for a, b in zip(clone.parameters(), student.parameters())),
    sorted(vars(student)) == sorted(vars(clone)),
)
