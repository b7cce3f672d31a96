"""Which letter comes next in a name: a GRU over identifiers of the standard library, padded, with an end token."""
import re
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SEED = 0
EPOCHS = 7
BATCH = 48
LR = 4e-3
PAD, START, END = 0, 1, 2

torch.manual_seed(SEED)
folder = Path(sysconfig.get_paths()["stdlib"])
text = "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in ("argparse", "typing", "tarfile", "inspect"))
names = sorted(set(re.findall(r"[a-z_]{4,12}", text)))
names = [names[i] for i in torch.randperm(len(names))[:2000].tolist()]
letters = {c: i + 3 for i, c in enumerate("_abcdefghijklmnopqrstuvwxyz")}
rows = [torch.tensor([START, *(letters[c] for c in name), END]) for name in names]


def collate(batch):
    inputs = pad_sequence([row[:-1] for row in batch], batch_first=True, padding_value=PAD)
    targets = pad_sequence([row[1:] for row in batch], batch_first=True, padding_value=PAD)
    return inputs, targets


class NameModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(30, dim, padding_idx=PAD)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 30, bias=False)

    def forward(self, ids):
        return self.head(self.gru(self.emb(ids))[0])


train_dl = DataLoader(rows[:1700], batch_size=BATCH, shuffle=True, collate_fn=collate)
val_dl = DataLoader(rows[1700:], batch_size=300, collate_fn=collate)
model = NameModel()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


@torch.no_grad()
def evaluate(model):
    model.eval()
    for inputs, targets in val_dl:
        return loss_of(model(inputs), targets).item()


for epoch in range(EPOCHS):
    model.train()
    for inputs, targets in train_dl:
        logits = model(inputs)
        loss = loss_of(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} train {loss.item():.3f} val {evaluate(model):.3f}")
