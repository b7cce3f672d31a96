"""11 PM: the schedule was written for a third of the steps."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(301)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
EPOCHS, BATCH = 36, 56
PLANNED = 10 * (1400 // BATCH)
net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.0, 1 - s / PLANNED) ** 2)
for epoch in range(EPOCHS):
    net.train()
    for ids in torch.randperm(1400).split(BATCH):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
    print(f"epoch {epoch} train {loss.item():.4f} val {nn.functional.cross_entropy(out, y[1400:]).item():.4f} lr {sched.get_last_lr()[0]:.2e}")
