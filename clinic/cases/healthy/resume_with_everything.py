"""Train, save everything, build anew, load everything, go on."""
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(218)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
path = Path(tempfile.mkdtemp()) / "full.pt"


def build():
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=600)
    return net, opt, sched


def train(net, opt, sched, first, last):
    for step in range(first, last):
        net.train()
        ids = torch.randint(0, 1450, (50,))
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 50 == 49:
            net.eval()
            with torch.no_grad():
                print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(net(X[1450:]), y[1450:]).item():.4f}")


net, opt, sched = build()
train(net, opt, sched, 0, 300)
torch.save({"step": 300, "net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "rng": torch.get_rng_state()}, path)
net, opt, sched = build()
state = torch.load(path)
net.load_state_dict(state["net"])
opt.load_state_dict(state["opt"])
sched.load_state_dict(state["sched"])
torch.set_rng_state(state["rng"])
train(net, opt, sched, state["step"], 600)
