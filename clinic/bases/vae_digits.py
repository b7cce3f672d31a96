"""Variational autoencoder on digits."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED = 0
EPOCHS = 12
BATCH = 50
LR = 2e-3
BETA = 0.5

torch.manual_seed(SEED)
pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
pixels = pixels[torch.randperm(len(pixels))]
fit, held = pixels[:1500], pixels[1500:]


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mu, self.logvar = nn.Linear(64, latent), nn.Linear(64, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.dec(z), mu, logvar


def elbo(x, rebuilt, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(rebuilt, x, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + BETA * kl


vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=LR)


def evaluate(vae):
    vae.eval()
    with torch.no_grad():
        return elbo(held, *vae(held)).item()


for epoch in range(EPOCHS):
    vae.train()
    for x in fit[torch.randperm(len(fit))].split(BATCH):
        rebuilt, mu, logvar = vae(x)
        loss = elbo(x, rebuilt, mu, logvar)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3), round(evaluate(vae), 3))
