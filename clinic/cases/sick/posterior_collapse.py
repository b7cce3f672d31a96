"""VAE on digits whose decoder can ignore the latent code."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(111)
x = torch.tensor(load_digits().data, dtype=torch.float32) / 16


class VAE(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.enc = nn.Linear(64, 64)
        self.mu = nn.Linear(64, z)
        self.logvar = nn.Linear(64, z)
        self.dec = nn.Sequential(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


BETA = 20.0
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
for epoch in range(14):
    vae.train()
    for b in x[torch.randperm(1500)].split(50):
        rec, mu, logvar = vae(b)
        rec_loss = F.binary_cross_entropy_with_logits(rec, b, reduction="none").sum(1).mean()
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        loss = rec_loss + BETA * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, f"rec {rec_loss.item():.3f} kl {kl.item():.5f}")
