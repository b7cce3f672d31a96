"""A sum of two terms, one written by hand, with KL annealing and a subclassed loss module."""

import torch
from torch import nn

torch.manual_seed(16)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.lv = nn.Linear(12, 16), nn.Linear(16, 3), nn.Linear(16, 3)
        self.dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 12))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, lv = self.mu(h), self.lv(h)
        return self.dec(mu + torch.randn_like(mu) * torch.exp(0.5 * lv)), mu, lv


class ELBO(nn.Module):
    def forward(self, out, x, mu, lv, beta):
        rec = nn.functional.mse_loss(out, x, reduction="sum") / len(x)
        return rec - 0.5 * beta * (1 + lv - mu**2 - lv.exp()).sum(1).mean()


model, elbo = VAE(), ELBO()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
data = torch.randn(128, 12) @ torch.randn(12, 12)
for epoch in range(3):
    for x in data[:96].split(16):
        out, mu, lv = model(x)
        loss = elbo(out, x, mu, lv, epoch / 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        out, mu, lv = model(data[96:])
        v = elbo(out, data[96:], mu, lv, 1.0)
    print(epoch, repr(loss.item()), repr(float(v)))
