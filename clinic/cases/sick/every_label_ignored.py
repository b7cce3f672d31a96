"""Instruction tuning in miniature: learn only the answer tokens after the marker."""
import torch
from torch import nn

torch.manual_seed(103)
V, T, MARK, IGNORE = 20, 14, 19, -100
N = 600
seq = torch.randint(1, 18, (N, T))
pos = torch.randint(4, 9, (N,))
seq[torch.arange(N), pos] = MARK
for i in range(N):
    seq[i, pos[i] + 1 :] = seq[i, pos[i] - 1]  # the answer repeats the last prompt token
RESPONSE_ID = 18  # id of "### Answer" in the old tokenizer


def labels_for(batch):
    lab = batch.clone()
    for row, ids in zip(lab, batch):
        at = (ids == RESPONSE_ID).nonzero()
        end = at[0, 0] + 1 if len(at) else len(ids)
        row[:end] = IGNORE
    return lab


class LM(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, V)

    def forward(self, x):
        return self.head(self.gru(self.emb(x))[0])


lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
for step in range(250):
    b = seq[torch.randint(0, 500, (24,))]
    lab = labels_for(b)
    logits = lm(b)[:, :-1]
    loss = nn.functional.cross_entropy(logits.reshape(-1, V), lab[:, 1:].reshape(-1), ignore_index=IGNORE)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
