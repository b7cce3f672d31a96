"""Digits with ReduceLROnPlateau."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(55)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
o = torch.randperm(len(x))
x, y = x[o], y[o]
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = ReduceLROnPlateau(opt, mode="max", factor=0.3, patience=1)
for epoch in range(30):
    model.train()
    for b in torch.randperm(1440).split(40):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[b]), y[b])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(x[1440:])
        val_loss = nn.functional.cross_entropy(out, y[1440:]).item()
    plateau.step(val_loss)
    print(epoch, round(loss.item(), 3), round(val_loss, 3), opt.param_groups[0]["lr"])
