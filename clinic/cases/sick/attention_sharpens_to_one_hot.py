"""Associative recall with unscaled dot-product attention and a hot optimizer."""
import torch
from torch import nn

torch.manual_seed(70)
KEYS, D, T = 16, 32, 12


def episode(n):
    keys = torch.stack([torch.randperm(KEYS)[:T] for _ in range(n)])
    vals = torch.randint(0, 8, (n, T))
    ask = torch.randint(0, T, (n,))
    return keys, vals, keys[torch.arange(n), ask], vals[torch.arange(n), ask]


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.ek, self.ev = nn.Embedding(KEYS, D), nn.Embedding(8, D)
        self.attn = nn.MultiheadAttention(D, 2, batch_first=True)
        self.out = nn.Linear(D, 8)
        with torch.no_grad():
            self.ek.weight.mul_(6.0)

    def forward(self, keys, vals, ask):
        kv = self.ek(keys) + self.ev(vals)
        a, _ = self.attn(self.ek(ask).unsqueeze(1), kv, kv, need_weights=False)
        return self.out(a.squeeze(1))


net = Memory()
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
for step in range(500):
    k, v, a, t = episode(32)
    loss = nn.functional.cross_entropy(net(k, v, a), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, round(loss.item(), 4))
