"""Word model with a vocabulary built from another file: most words are unknown."""
import re
import sysconfig
from collections import Counter
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(120)
lib = Path(sysconfig.get_paths()["stdlib"])
words = re.findall(r"\w+", (lib / "argparse.py").read_text(encoding="utf-8"))[:14000]
source = (lib / "keyword.py").read_text(encoding="utf-8")
vocab = {w: i + 2 for i, (w, _) in enumerate(Counter(re.findall(r"\w+", source)).most_common(200))}
PAD, UNK = 0, 1
ids = torch.tensor([vocab.get(w, UNK) for w in words])
V, T = len(vocab) + 2, 12


class WordLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, 32, padding_idx=PAD)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, V)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


net = WordLM()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(300):
    at = torch.randint(0, len(ids) - T - 1, (24,))
    chunk = ids[at[:, None] + torch.arange(T + 1)]
    loss = nn.functional.cross_entropy(net(chunk[:, :-1]).flatten(0, 1), chunk[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, round(loss.item(), 4), f"unknown {(chunk == UNK).float().mean().item():.2f}")
