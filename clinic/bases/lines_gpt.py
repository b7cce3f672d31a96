"""A small causal transformer on lines of code of unequal length, padded."""
import sysconfig
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

SEED = 0
STEPS = 220
BATCH = 24
LR = 2e-3
PAD, END = 0, 1

torch.manual_seed(SEED)
source = (Path(sysconfig.get_paths()["stdlib"]) / "tarfile.py").read_text(encoding="utf-8")
lines = sorted({line.strip() for line in source.splitlines() if 8 <= len(line.strip()) <= 30 and line.isascii()})
vocabulary = {c: i + 2 for i, c in enumerate(sorted(set("".join(lines))))}
corpus = [torch.tensor([*(vocabulary[c] for c in line), END]) for line in lines]
corpus = [corpus[i] for i in torch.randperm(len(corpus)).tolist()]
fit, held = corpus[:-150], corpus[-150:]


def padded(rows):
    both = pad_sequence(rows, batch_first=True, padding_value=PAD)
    inputs, labels = both[:, :-1], both[:, 1:].clone()
    labels[labels == PAD] = -100
    return inputs, labels


class LineModel(nn.Module):
    def __init__(self, dim=32, words=len(vocabulary) + 2):
        super().__init__()
        self.tok = nn.Embedding(words, dim, padding_idx=PAD)
        self.pos = nn.Embedding(32, dim)
        layer = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, words, bias=False)

    def forward(self, ids):
        size = ids.shape[1]
        future = torch.triu(torch.ones(size, size, dtype=torch.bool), 1)
        h = self.tok(ids) + self.pos(torch.arange(size))
        return self.head(self.body(h, mask=future, src_key_padding_mask=ids == PAD))


net = LineModel()
opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.05)
ce = nn.CrossEntropyLoss()


def evaluate(net):
    net.eval()
    with torch.no_grad():
        inputs, labels = padded(held)
        return ce(net(inputs).flatten(0, 1), labels.flatten()).item()


for step in range(STEPS):
    net.train()
    for group in opt.param_groups:
        group["lr"] = LR * min(1.0, (step + 1) / 20)
    inputs, labels = padded([fit[i] for i in torch.randint(0, len(fit), (BATCH,)).tolist()])
    logits = net(inputs)
    loss = ce(logits.flatten(0, 1), labels.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 19:
        print(f"step {step + 1} train {loss.item():.3f} val {evaluate(net):.3f}")
