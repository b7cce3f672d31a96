"""Multi-label tagging on synthetic documents: each tag has a few trigger words."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    def __init__(self, n, seed, words=80, tags=6):
        rng = np.random.default_rng(seed)
        triggers = np.random.default_rng(99).integers(0, words, size=(tags, 5))
        counts = rng.poisson(0.6, size=(n, words)).astype(np.float32)
        score = counts[:, triggers].sum(-1) + rng.normal(0, 0.5, size=(n, tags))
        self.x = torch.from_numpy(np.log1p(counts))
        self.y = torch.from_numpy((score > 3.4).astype(np.float32))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"doc": self.x[i], "tags": self.y[i]}


torch.manual_seed(21)
train_loader = DataLoader(Documents(2000, seed=1), batch_size=50, shuffle=True)
test_loader = DataLoader(Documents(500, seed=2), batch_size=250)
tagger = nn.Sequential(nn.Linear(80, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 6), nn.Sigmoid())
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(tagger.parameters(), lr=3e-3)

for epoch in range(14):
    tagger.train()
    losses = []
    for batch in train_loader:
        optimizer.zero_grad()
        loss = criterion(tagger(batch["doc"]), batch["tags"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tagger.eval()
    with torch.no_grad():
        test = np.mean([criterion(tagger(b["doc"]), b["tags"]).item() for b in test_loader])
    print(f"epoch {epoch + 1:2d} | train {np.mean(losses):.4f} | test {test:.4f}")
