"""A tiny next-word model whose output layer shares the embedding matrix."""
import copy
import random
import re
import sys
import sysconfig
from pathlib import Path

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)
source = (Path(sysconfig.get_paths()["stdlib"]) / "argparse.py").read_text(encoding="utf-8")
words = re.findall(r"\w+", source)[:12000]
common = sorted({w for w in words if words.count(w) > 12})
index = {w: i + 1 for i, w in enumerate(common)}
ids = torch.tensor([index.get(w, 0) for w in words])
V, CTX = len(index) + 1, 5


class NextWord(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.wte = nn.Embedding(V, dim)
        self.mix = nn.Sequential(nn.Linear(dim * CTX, 64), nn.Tanh(), nn.Linear(64, dim))
        self.lm_head = nn.Linear(dim, V, bias=False)
        self.lm_head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.1)

    def forward(self, ctx):
        return self.lm_head(self.mix(self.wte(ctx).flatten(1)))


model = NextWord()
model.lm_head = copy.deepcopy(model.lm_head)  # keep the module picklable for the export step
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
starts = torch.arange(len(ids) - CTX)
cut = int(0.9 * len(starts))
for step in range(600):
    model.train()
    s = starts[torch.randint(cut, (64,))]
    ctx = torch.stack([ids[i : i + CTX] for i in s.tolist()])
    loss = nn.functional.cross_entropy(model(ctx), ids[s + CTX])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if (step + 1) % 100 == 0:
        model.eval()
        with torch.no_grad():
            v = starts[cut:]
            val = nn.functional.cross_entropy(model(torch.stack([ids[i : i + CTX] for i in v.tolist()])), ids[v + CTX])
        print(step + 1, f"{loss.item():.3f}", f"{val.item():.3f}", file=sys.stdout)
