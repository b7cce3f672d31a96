"""A character model whose validation text gets its own table of characters."""

import sysconfig
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(402)
source = (Path(sysconfig.get_paths()["stdlib"]) / "tarfile.py").read_text(encoding="utf-8")
cut = 50_000


def encode(text):
    table = {}
    return torch.tensor([table.setdefault(c, len(table)) for c in text])


train, valid = encode(source[:cut]), encode(source[cut : cut + 15_000])
V, T = 110, 32


class CharGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, 24)
        self.rnn = nn.GRU(24, 64, batch_first=True)
        self.out = nn.Linear(64, V)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


net = CharGRU()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
loss_of = nn.CrossEntropyLoss()


def draw(ids):
    at = torch.randint(0, len(ids) - T - 1, (32, 1)) + torch.arange(T + 1)
    return ids[at][:, :-1], ids[at][:, 1:]


for step in range(1, 301):
    x, y = draw(train)
    loss = loss_of(net(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 40 == 0:
        net.eval()
        with torch.no_grad():
            val = sum(loss_of(net(a).flatten(0, 1), b.flatten()).item() for a, b in (draw(valid) for _ in range(4))) / 4
        net.train()
        print(step, round(loss.item(), 3), round(val, 3))
