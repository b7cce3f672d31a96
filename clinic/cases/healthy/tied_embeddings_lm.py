"""Bigram-window language model with tied input and output embeddings."""
import sysconfig
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(224)
text = (Path(sysconfig.get_paths()["stdlib"]) / "textwrap.py").read_text(encoding="utf-8")
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
V, CTX = len(chars), 8


class Tied(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.mix = nn.Sequential(nn.Linear(CTX * d, 96), nn.GELU(), nn.Linear(96, d))
        self.out = nn.Linear(d, V)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.out.weight = self.embed.weight

    def forward(self, ctx):
        return self.out(self.mix(self.embed(ctx).flatten(1)))


def batch(lo, hi, n):
    at = torch.randint(lo, hi - CTX, (n,))
    return ids[at[:, None] + torch.arange(CTX)], ids[at + CTX]


model = Tied()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
cut = int(0.9 * len(ids))
for step in range(700):
    model.train()
    x, t = batch(0, cut, 64)
    loss = nn.functional.cross_entropy(model(x), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 70 == 69:
        model.eval()
        with torch.no_grad():
            x, t = batch(cut, len(ids), 600)
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(model(x), t).item():.4f}")
