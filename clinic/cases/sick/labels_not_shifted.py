"""GRU language model over the words of a standard-library module."""
import re
import sysconfig
from collections import Counter
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(17)
words = re.findall(r"[A-Za-z_]+|[^\sA-Za-z_]", (Path(sysconfig.get_paths()["stdlib"]) / "shutil.py").read_text(encoding="utf-8"))[:9000]
vocab = {w: i for i, (w, _) in enumerate(Counter(words).most_common(150))}
UNK = len(vocab)
stream = torch.tensor([vocab.get(w, UNK) for w in words])
SEQ = 20


class GRULM(nn.Module):
    def __init__(self, v, emb=32, hid=64):
        super().__init__()
        self.emb = nn.Embedding(v, emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.out = nn.Linear(hid, v)

    def forward(self, tokens):
        h, _ = self.rnn(self.emb(tokens))
        return self.out(h)


def windows(lo, hi, count):
    at = torch.randint(lo, hi - SEQ - 1, (count,))
    return torch.stack([stream[a : a + SEQ] for a in at.tolist()])


lm = GRULM(UNK + 1)
opt = torch.optim.Adam(lm.parameters(), lr=4e-3)
ce = nn.CrossEntropyLoss()
edge = int(len(stream) * 0.85)
for step in range(1, 401):
    lm.train()
    seq = windows(0, edge, 24)
    logits = lm(seq)
    loss = ce(logits.reshape(-1, UNK + 1), seq.reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    if step % 50 == 0:
        lm.eval()
        with torch.no_grad():
            seq = windows(edge, len(stream), 100)
            val = ce(lm(seq).reshape(-1, UNK + 1), seq.reshape(-1))
        print(f"{step:4d}  {loss.item():.3f}  {val.item():.3f}  ppl {val.exp().item():.2f}")
