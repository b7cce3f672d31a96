"""Sentiment-like toy: which of two word lists does a bag of words come from?"""
import random

import torch
import torch.nn as nn

random.seed(3)
torch.manual_seed(3)
VOCAB, LENGTH, N = 200, 12, 3000


def sample():
    label = random.randint(0, 1)
    words = [random.randrange(0, 120) if random.random() < (0.65 if label else 0.35) else random.randrange(80, VOCAB) for _ in range(LENGTH)]
    return words, label


rows = [sample() for _ in range(N)]
tokens = torch.tensor([r[0] for r in rows])
labels = torch.tensor([r[1] for r in rows])


class BagModel(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.proj = nn.Linear(dim, dim)
        self.cls = nn.Linear(dim, 2)
        self.cache = None

    def features(self, ids):
        return torch.relu(self.proj(self.embed(ids).mean(dim=1)))

    def forward(self, ids):
        self.cache = self.features(ids).detach()
        return self.cls(self.cache)


model = BagModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
loss_fn = nn.CrossEntropyLoss()
train_ids, train_y, val_ids, val_y = tokens[:2500], labels[:2500], tokens[2500:], labels[2500:]

for epoch in range(8):
    model.train()
    perm = torch.randperm(len(train_ids))
    for start in range(0, len(perm), 50):
        pick = perm[start : start + 50]
        optimizer.zero_grad()
        loss = loss_fn(model(train_ids[pick]), train_y[pick])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(val_ids)
        acc = (logits.argmax(1) == val_y).float().mean()
        print(f"epoch {epoch}: train {loss.item():.3f} val {loss_fn(logits, val_y).item():.3f} acc {acc:.3f}")
