"""Adam with clip 1.0 where the raw norm is always larger: normal in language-model recipes."""
import sysconfig
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(232)
text = (Path(sysconfig.get_paths()["stdlib"]) / "string.py").read_text(encoding="utf-8")
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
V, T = len(chars), 20


class CharGRU(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, x):
        return self.out(self.gru(self.emb(x))[0])


net = CharGRU()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(350):
    at = torch.randint(0, len(ids) - T - 1, (16,))
    chunk = ids[at[:, None] + torch.arange(T + 1)]
    logits = net(chunk[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten(), reduction="sum") / 16
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 35 == 0:
        print(step, round(loss.item() / T, 4))
