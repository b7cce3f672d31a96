"""Two augmented views of each digit should get similar embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(73)
x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
x = (x - x.mean()) / x.std()


def augment(b):
    return b * (torch.rand_like(b) > 0.2) + 0.15 * torch.randn_like(b)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return pa, pb, za, zb


net = Siamese()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(600):
    batch = x[torch.randint(0, len(x), (128,))]
    pa, pb, za, zb = net(augment(batch), augment(batch))
    loss = -(F.cosine_similarity(pa, zb).mean() + F.cosine_similarity(pb, za).mean()) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        with torch.no_grad():
            spread = F.normalize(net.encoder(x[:500]), dim=1).std(0).mean().item()
        print(step, f"{loss.item():.5f} spread {spread:.4f}")
