"""Benign or malignant: a tabular classifier with BCE on logits."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
EPOCHS = 15
BATCH = 24
LR = 1e-3

torch.manual_seed(SEED)
table, outcome = load_breast_cancer(return_X_y=True)
table = torch.tensor((table - table.mean(0)) / table.std(0), dtype=torch.float32)
outcome = torch.tensor(outcome, dtype=torch.float32)
shuffled = torch.randperm(len(table))
table, outcome = table[shuffled], outcome[shuffled]
fit_x, fit_y, dev_x, dev_y = table[:432], outcome[:432], table[432:], outcome[432:]
loader = DataLoader(TensorDataset(fit_x, fit_y), batch_size=BATCH, shuffle=True)


class Tabular(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


model = Tabular()
bce = nn.BCEWithLogitsLoss()
optim = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)


@torch.no_grad()
def evaluate(model):
    model.eval()
    score = model(dev_x)
    return bce(score, dev_y).item(), ((score > 0).float() == dev_y).float().mean().item()


for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for rows, truth in loader:
        optim.zero_grad(set_to_none=True)
        score = model(rows)
        loss = bce(score, truth)
        loss.backward()
        optim.step()
        running += loss.item()
    val, acc = evaluate(model)
    if epoch % 3 == 0:
        print(f"[{epoch}] {running / len(loader):.4f} {val:.4f} {acc:.3f}")
