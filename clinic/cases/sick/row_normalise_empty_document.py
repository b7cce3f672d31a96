"""Topic of a document from its word counts, rows normalised to frequencies."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(5)
torch.manual_seed(5)
topics, words, docs = 4, 60, 1600
themes = rng.dirichlet(np.full(words, 0.15), size=topics)
labels = rng.integers(0, topics, docs)
lengths = rng.poisson(9, docs) + 1
lengths[1011] = 0  # an empty page slipped through the scraper
counts = np.stack([rng.multinomial(n, 0.6 * themes[k] + 0.4 / words) for n, k in zip(lengths, labels)]).astype(np.float32)
C, L = torch.from_numpy(counts), torch.from_numpy(labels)


class TopicModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(words, 40)
        self.act = nn.ReLU()
        self.top = nn.Linear(40, topics)

    def forward(self, bag):
        freq = bag / bag.sum(dim=1, keepdim=True)
        return self.top(self.act(self.hidden(freq)))


model = TopicModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.CrossEntropyLoss()
train_ids, val_ids = np.arange(1300), np.arange(1300, docs)
for epoch in range(12):
    model.train()
    rng.shuffle(train_ids)
    for i in range(0, len(train_ids), 32):
        sel = torch.from_numpy(train_ids[i : i + 32].copy())
        optimizer.zero_grad()
        loss = loss_fn(model(C[sel]), L[sel])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        v = loss_fn(model(C[1300:]), L[1300:]).item()
    print(f"epoch {epoch}  train {loss.item():.4f}  val {v:.4f}")
