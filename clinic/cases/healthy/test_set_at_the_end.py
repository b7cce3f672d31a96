"""Validation every 80 steps, a test set once at the very end."""
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

torch.manual_seed(238)
X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
Xr, Xte, yr, yte = train_test_split(X, y, test_size=300, random_state=0)
Xtr, Xva, ytr, yva = train_test_split(Xr, yr, test_size=300, random_state=0)
Xtr, Xva, Xte = map(torch.from_numpy, (Xtr, Xva, Xte))
ytr, yva, yte = map(torch.from_numpy, (ytr, yva, yte))
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)


def score(a, b):
    net.eval()
    with torch.no_grad():
        out = net(a)
        return nn.functional.cross_entropy(out, b).item(), (out.argmax(1) == b).float().mean().item()


for step in range(640):
    net.train()
    ids = torch.randint(0, len(Xtr), (40,))
    loss = nn.functional.cross_entropy(net(Xtr[ids]), ytr[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 79:
        print(step + 1, "val %.4f acc %.3f" % score(Xva, yva))
print("test %.4f acc %.3f" % score(Xte, yte))
