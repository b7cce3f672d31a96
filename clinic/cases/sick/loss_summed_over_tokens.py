"""A character model with SGD whose loss is the sum over all tokens of a batch."""

import sysconfig
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(405)
text = (Path(sysconfig.get_paths()["stdlib"]) / "typing.py").read_text(encoding="utf-8")[:60_000]
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])


class CharGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(chars), 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, len(chars))

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


net = CharGRU()
criterion = nn.CrossEntropyLoss(reduction="sum")
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def draw(lo, hi):
    at = torch.randint(lo, hi - 33, (16, 1)) + torch.arange(33)
    return ids[at][:, :-1], ids[at][:, 1:]


for step in range(250):
    x, y = draw(0, 54_000)
    opt.zero_grad()
    loss = criterion(net(x).flatten(0, 1), y.flatten())
    loss.backward()
    opt.step()
    if step % 25 == 0:
        with torch.no_grad():
            x, y = draw(54_000, len(ids))
            print(step, round(loss.item(), 2), round(criterion(net(x).flatten(0, 1), y.flatten()).item(), 2))
