"""InfoNCE between two views of each digit; the loss starts at ln B and floors well above zero."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(212)
x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
B = 64


def view(b):
    return b * (torch.rand_like(b) > 0.35) + 0.2 * torch.randn_like(b)


encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(600):
    batch = x[torch.randint(0, len(x), (B,))]
    za, zb = F.normalize(encoder(view(batch)), dim=1), F.normalize(encoder(view(batch)), dim=1)
    logits = za @ zb.t() / 0.2
    target = torch.arange(B)
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(step, round(loss.item(), 4))
