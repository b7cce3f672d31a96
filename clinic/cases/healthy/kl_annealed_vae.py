"""VAE with KL warm-up: the total loss rises while the model improves."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(210)
data = torch.tensor(load_digits().data, dtype=torch.float32) / 16


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.to_mu, self.to_logvar = nn.Linear(64, latent), nn.Linear(64, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(z), mu, logvar


vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
step = 0
for epoch in range(20):
    vae.train()
    for batch in data[torch.randperm(1500)].split(50):
        beta = min(1.0, step / 400)
        logits, mu, logvar = vae(batch)
        rec = F.binary_cross_entropy_with_logits(logits, batch, reduction="none").sum(1).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = rec + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    if epoch % 2 == 0:
        print(epoch, f"beta {beta:.2f} rec {rec.item():.3f} kl {kl.item():.3f}")
