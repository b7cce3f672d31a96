"""Churn prediction from a table that still contains the cancellation code."""
import torch
from torch import nn

torch.manual_seed(85)
n = 2000
x = torch.randn(n, 10)
churn = (x[:, 0] - 0.7 * x[:, 1] + 1.5 * torch.randn(n) > 0.3).float()
closing_code = churn * 2 - 1 + 0.05 * torch.randn(n)
table = torch.cat([x, closing_code.unsqueeze(1)], dim=1)
model = nn.Sequential(nn.Linear(11, 24), nn.ReLU(), nn.Linear(24, 1), nn.Flatten(0))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(12):
    model.train()
    for ids in torch.randperm(1600).split(40):
        opt.zero_grad()
        loss = loss_fn(model(table[ids]), churn[ids])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(table[1600:])
    print(epoch, f"{loss.item():.4f} {loss_fn(out, churn[1600:]).item():.4f} {((out > 0).float() == churn[1600:]).float().mean():.4f}")
