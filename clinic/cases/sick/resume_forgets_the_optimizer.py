"""Training in two sittings with a checkpoint in between."""
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(60)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
shuffled = torch.randperm(len(x))
x, y = x[shuffled], y[shuffled]
ckpt = Path(tempfile.mkdtemp()) / "last.pt"


def build():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))


def train(model, opt, first, last):
    for step in range(first, last):
        model.train()
        ids = torch.randint(0, 1500, (64,))
        loss = nn.functional.cross_entropy(model(x[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                print(step + 1, round(loss.item(), 4), round(nn.functional.cross_entropy(model(x[1500:]), y[1500:]).item(), 4))


model, opt = build()
train(model, opt, 0, 300)
torch.save({"step": 300, "model": model.state_dict()}, ckpt)

model, opt = build()
state = torch.load(ckpt)
model.load_state_dict(state["model"])
train(model, opt, state["step"], 600)
