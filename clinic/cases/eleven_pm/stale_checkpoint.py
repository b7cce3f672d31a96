"""11 PM: validation runs on the checkpoint file; the file is written once."""
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(300)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
ckpt = Path(tempfile.mkdtemp()) / "latest.pt"


def make():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


model, evaluator = make(), make()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)


def save(epoch):
    if not ckpt.exists():
        torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "epoch": epoch}, ckpt)


def validate():
    evaluator.load_state_dict(torch.load(ckpt)["model"])
    evaluator.eval()
    with torch.no_grad():
        out = evaluator(X[1400:])
    return nn.functional.cross_entropy(out, y[1400:]).item()


for epoch in range(22):
    model.train()
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch >= 2:
        save(epoch)
        print(f"epoch {epoch} train {loss.item():.4f} val {validate():.4f}")
