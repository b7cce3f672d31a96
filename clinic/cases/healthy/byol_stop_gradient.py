"""Self-distillation with a stop-gradient and a moving-average target."""
import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(252)
x = torch.tensor(load_digits().data, dtype=torch.float32)
x = (x - x.mean()) / x.std()


def view(b):
    return b * (torch.rand_like(b) > 0.25) + 0.1 * torch.randn_like(b)


online = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
predictor = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
target = copy.deepcopy(online)
target.requires_grad_(False)
opt = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=2e-3)
for step in range(500):
    b = x[torch.randint(0, len(x), (96,))]
    a, c = view(b), view(b)
    with torch.no_grad():
        ta, tc = target(a), target(c)
    loss = 2 - (F.cosine_similarity(predictor(online(a)), tc).mean() + F.cosine_similarity(predictor(online(c)), ta).mean())
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.lerp_(o, 0.02)
    if step % 50 == 0:
        spread = F.normalize(online(x[:400]).detach(), dim=1).std(0).mean().item()
        print(step, f"{loss.item():.4f} spread {spread:.3f}")
