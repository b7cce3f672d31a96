"""Contrastive pre-training on digits."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED = 0
STEPS = 400
BATCH = 64
LR = 1e-3
TEMPERATURE = 0.2

torch.manual_seed(SEED)
bank = torch.tensor(load_digits().data, dtype=torch.float32) / 16


def view(x):
    return x * (torch.rand_like(x) > 0.3) + 0.15 * torch.randn_like(x)


encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 24))
opt = torch.optim.Adam(encoder.parameters(), lr=LR)
for step in range(STEPS):
    x = bank[torch.randint(0, len(bank), (BATCH,))]
    a, b = F.normalize(encoder(view(x)), dim=1), F.normalize(encoder(view(x)), dim=1)
    sim = a @ b.t() / TEMPERATURE
    loss = F.cross_entropy(sim, torch.arange(BATCH))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, round(loss.item(), 4))
