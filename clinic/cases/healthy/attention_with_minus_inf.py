"""Causal attention written with masked_fill(-inf): infinities inside, none outside."""
import math
import sysconfig
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(242)
text = (Path(sysconfig.get_paths()["stdlib"]) / "shlex.py").read_text(encoding="utf-8")[:9000]
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
V, T, D = len(chars), 16, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.register_buffer("mask", torch.triu(torch.ones(T, T, dtype=torch.bool), 1))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        att = (q @ k.transpose(1, 2)) / math.sqrt(D)
        att = att.masked_fill(self.mask, float("-inf"))
        return self.proj(att.softmax(-1) @ v)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(0.02 * torch.randn(T, D))
        self.ln1, self.attn = nn.LayerNorm(D), Attention()
        self.ln2, self.ff = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 64), nn.GELU(), nn.Linear(64, D))
        self.out = nn.Linear(D, V)

    def forward(self, x):
        h = self.tok(x) + self.pos
        h = h + self.attn(self.ln1(h))
        return self.out(h + self.ff(self.ln2(h)))


lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
cut = int(0.9 * len(ids))


def batch(lo, hi, n):
    at = torch.randint(lo, hi - T - 1, (n,))
    c = ids[at[:, None] + torch.arange(T + 1)]
    return c[:, :-1], c[:, 1:]


for step in range(400):
    lm.train()
    x, t = batch(0, cut, 20)
    loss = nn.functional.cross_entropy(lm(x).flatten(0, 1), t.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        lm.eval()
        with torch.no_grad():
            x, t = batch(cut, len(ids), 40)
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(lm(x).flatten(0, 1), t.flatten()).item():.4f}")
