"""Predict mean and variance; the loss is a negative log-likelihood below zero."""
import torch
from torch import nn

torch.manual_seed(205)
x = torch.rand(2000, 1) * 6 - 3
y = torch.sin(x) + torch.randn_like(x) * (0.02 + 0.06 * x.abs())


class Probabilistic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.mean, self.logvar = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), self.logvar(h).clamp(-8, 4).exp()


model = Probabilistic()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
nll = nn.GaussianNLLLoss()
for epoch in range(30):
    model.train()
    for ids in torch.randperm(1600).split(50):
        mu, var = model(x[ids])
        loss = nll(mu, y[ids], var)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        mu, var = model(x[1600:])
        val = nll(mu, y[1600:], var).item()
    if epoch % 3 == 0:
        print(epoch, round(loss.item(), 4), round(val, 4))
