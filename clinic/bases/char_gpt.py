"""A pocket GPT on the source of a standard-library module."""
import math
import sysconfig
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn import functional as F

SEED = 0
STEPS = 240
LR = 2e-3
BLOCK, BATCH, DIM, HEADS, LAYERS = 24, 12, 32, 2, 2

torch.manual_seed(SEED)
text = (Path(sysconfig.get_paths()["stdlib"]) / "argparse.py").read_text(encoding="utf-8")[:40000]
chars = sorted(set(text))
lookup = {c: i for i, c in enumerate(chars)}
data = torch.tensor([lookup[c] for c in text])
cut = int(0.9 * len(data))


def get_batch(lo, hi, n):
    at = torch.randint(lo, hi - BLOCK - 1, (n,))
    window = data[at[:, None] + torch.arange(BLOCK + 1)]
    return window[:, :-1], window[:, 1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(chars), DIM), nn.Embedding(BLOCK, DIM)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, len(chars), bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.04)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        return self.head(self.ln(self.blocks(x)))


gpt = GPT()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / 25, 0.55 + 0.45 * math.cos(math.pi * s / STEPS)))


@torch.no_grad()
def evaluate(gpt):
    gpt.eval()
    x, t = get_batch(cut, len(data), 64)
    return F.cross_entropy(gpt(x).flatten(0, 1), t.flatten()).item()


for step in range(STEPS):
    gpt.train()
    inputs, targets = get_batch(0, cut, BATCH)
    logits = gpt(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 24 == 23:
        print(f"step {step + 1} train {loss.item():.3f} val {evaluate(gpt):.3f}")
