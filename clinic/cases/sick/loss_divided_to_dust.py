"""Mean over pixels, then over the batch, then over the dataset: a reconstruction loss with too many means."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(59)
imgs = torch.tensor(load_digits().images, dtype=torch.float32).flatten(1) / 16
N = len(imgs)


class AE(nn.Module):
    def __init__(self, bottleneck=8):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, bottleneck))
        self.up = nn.Sequential(nn.Linear(bottleneck, 32), nn.ELU(), nn.Linear(32, 64))

    def forward(self, x):
        return self.up(self.down(x))


model = AE()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(800):
    model.train()
    b = imgs[torch.randint(0, 1500, (64,))]
    err = (model(b) - b) ** 2
    loss = err.mean() / 64 / N / N
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 0:
        model.eval()
        with torch.no_grad():
            v = imgs[1500:]
            print(step, loss.item(), ((model(v) - v) ** 2).mean().item())
