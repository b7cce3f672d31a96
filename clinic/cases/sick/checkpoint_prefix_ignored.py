"""Pre-train on eight digits, save, load into the fine-tuning model, go on with all ten."""
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(6)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32) / 16
y = torch.tensor(y)
shuffle = torch.randperm(len(X))
X, y = X[shuffle], y[shuffle]


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def run(model, mask, steps, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    xs, ys = X[:1500][mask[:1500]], y[:1500][mask[:1500]]
    xv, yv = X[1500:][mask[1500:]], y[1500:][mask[1500:]]
    for step in range(steps):
        model.train()
        i = torch.randint(len(xs), (64,))
        loss = nn.functional.cross_entropy(model(xs[i]), ys[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 50 == 0:
            model.eval()
            with torch.no_grad():
                out = model(xv)
                print(f"{step + 1:4d} {loss.item():.3f} {nn.functional.cross_entropy(out, yv).item():.3f} {(out.argmax(1) == yv).float().mean():.3f}")


folder = Path(tempfile.mkdtemp())
base = Wrapper(Net(10))
run(base, y < 8, 200, 1e-3)
torch.save({"model": base.state_dict(), "step": 200}, folder / "base.pt")

print("fine-tuning")
model = Net(10)
model.load_state_dict(torch.load(folder / "base.pt")["model"], strict=False)
run(model, y >= 0, 300, 3e-4)
