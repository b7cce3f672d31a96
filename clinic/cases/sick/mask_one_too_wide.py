"""A tiny decoder learns sums: every third token is the sum of the two before it."""
import math

import torch
from torch import nn

torch.manual_seed(134)
V, T = 16, 24
WIDTH = 1  # of the triangle that may be seen


def batch(n):
    x = torch.randint(0, V, (n, T + 1))
    third = x[:, 2::3]
    x[:, 2::3] = (x[:, 0::3][:, : third.shape[1]] + x[:, 1::3][:, : third.shape[1]]) % V
    return x[:, :-1], x[:, 1:]


class Decoder(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.token, self.place = nn.Embedding(V, d), nn.Embedding(T, d)
        self.norm, self.qkv, self.mix = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.last = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 96), nn.ReLU(), nn.Linear(96, V))
        self.register_buffer("seen", torch.tril(torch.ones(T, T), diagonal=WIDTH).bool())

    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        h = h + self.mix(scores.masked_fill(~self.seen, -math.inf).softmax(-1) @ v)
        return self.last(h)


decoder = Decoder()
opt = torch.optim.AdamW(decoder.parameters(), lr=3e-3)
ask, answer = batch(200)
for step in range(500):
    x, y = batch(32)
    loss = nn.functional.cross_entropy(decoder(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        decoder.eval()
        with torch.no_grad():
            val = nn.functional.cross_entropy(decoder(ask).flatten(0, 1), answer.flatten())
        decoder.train()
        print(step, f"{loss.item():.3f} {val.item():.3f}")
