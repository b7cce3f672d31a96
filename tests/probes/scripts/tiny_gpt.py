"""A small decoder with fused attention, tied weights, warm-up and dropout; the loss is computed inside the model."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(12)
V, T, D, H = 24, 16, 32, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D), nn.Dropout(0.1))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, H, D // H).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(D, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, D))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.ln = nn.LayerNorm(D)
        self.head = nn.Linear(D, V, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, V), targets.view(-1))
        return logits, loss


data = torch.arange(4000) * 7 % 23
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
for step in range(30):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * min(1.0, (step + 1) / 10) * (0.5 + 0.5 * math.cos(math.pi * step / 30))
    if step % 10 == 0:
        model.eval()
        with torch.no_grad():
            i = torch.arange(0, 64, 16)
            _, v = model(torch.stack([data[j : j + T] for j in i]), torch.stack([data[j + 1 : j + T + 1] for j in i]))
        print("val", repr(v.item()))
        model.train()
    i = torch.randint(100, 3900, (8,))
    _, loss = model(torch.stack([data[j : j + T] for j in i]), torch.stack([data[j + 1 : j + T + 1] for j in i]))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(repr(loss.item()))
