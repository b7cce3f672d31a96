"""Evaluate on a copy of the model, so that training is not disturbed."""
import copy

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(91)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
ids = torch.randperm(len(X))
tr, va = ids[:1400], ids[1400:]
model = nn.Sequential(nn.Linear(64, 80), nn.ReLU(), nn.Dropout(0.2), nn.Linear(80, 10))
eval_model = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


@torch.no_grad()
def validate(m):
    m.eval()
    out = m(X[va])
    return nn.functional.cross_entropy(out, y[va]).item(), (out.argmax(1) == y[va]).float().mean().item()


for epoch in range(14):
    model.train()
    for b in tr[torch.randperm(len(tr))].split(50):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X[b]), y[b])
        loss.backward()
        optimizer.step()
    val, acc = validate(eval_model)
    print(f"epoch {epoch}: train {loss.item():.4f} val {val:.4f} acc {acc:.3f}")
