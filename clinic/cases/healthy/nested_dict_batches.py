"""Batches are nested dicts and the model returns a dataclass with its own loss."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Rows(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.num = torch.randn(n, 6, generator=g)
        self.cat = torch.randint(0, 12, (n, 2), generator=g)
        self.y = ((self.num[:, 0] + (self.cat[:, 0] % 3 - 1) * self.num[:, 1]) > 0).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"features": {"num": self.num[i], "cat": self.cat[i]}, "labels": self.y[i]}


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(12, 4), nn.Embedding(12, 4)])
        self.mlp = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Linear(48, 2))

    def forward(self, features, labels):
        parts = [features["num"]] + [e(features["cat"][:, k]) for k, e in enumerate(self.emb)]
        logits = self.mlp(torch.cat(parts, 1))
        return Output(nn.functional.cross_entropy(logits, labels), logits)


torch.manual_seed(236)
train, valid = DataLoader(Rows(2500, 1), 50, shuffle=True), DataLoader(Rows(600, 2), 300)
model = Mixed()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
for epoch in range(9):
    model.train()
    for batch in train:
        opt.zero_grad()
        out = model(**batch)
        out.loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = sum(model(**b).loss.item() for b in valid) / len(valid)
    print(epoch, round(out.loss.item(), 4), round(val, 4))
