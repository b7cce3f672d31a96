"""Is the wind good for sailing? Two measurements, one straight line."""
import torch
from torch import nn

torch.manual_seed(75)
n = 1200
wind = torch.rand(n, 2) * 2 - 1
good = (wind[:, 0] * wind[:, 1] > 0).long()
train_x, train_y, val_x, val_y = wind[:900], good[:900], wind[900:], good[900:]

model = nn.Linear(2, 2)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(50):
    model.train()
    for ids in torch.randperm(900).split(50):
        loss = nn.functional.cross_entropy(model(train_x[ids]), train_y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(val_x)
        val = nn.functional.cross_entropy(out, val_y).item()
    if epoch % 5 == 0:
        print(epoch, f"{loss.item():.4f} {val:.4f} {(out.argmax(1) == val_y).float().mean():.3f}")
