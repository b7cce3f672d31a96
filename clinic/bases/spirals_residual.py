"""Three spirals with a residual MLP, LayerNorm and a Trainer class."""
import math

import torch
from torch import nn

SEED = 0
EPOCHS = 14
BATCH = 60
LR = 2e-3

torch.manual_seed(SEED)
radius = torch.rand(1800).sqrt() * 5
arm = torch.randint(0, 3, (1800,))
angle = radius + arm * 2 * math.pi / 3
coords = torch.stack([radius * angle.cos(), radius * angle.sin()], 1) / 3 + 0.04 * torch.randn(1800, 2)
fit_x, fit_y, dev_x, dev_y = coords[:1440], arm[:1440], coords[1440:], arm[1440:]


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.02)

    def evaluate(self, model):
        model.eval()
        with torch.no_grad():
            out = model(dev_x)
        return nn.functional.cross_entropy(out, dev_y).item(), (out.argmax(1) == dev_y).float().mean().item()

    def fit(self):
        for epoch in range(EPOCHS):
            self.model.train()
            for ids in torch.randperm(len(fit_x)).split(BATCH):
                truth = fit_y[ids]
                self.optimizer.zero_grad()
                out = self.model(fit_x[ids])
                loss = nn.functional.cross_entropy(out, truth)
                loss.backward()
                self.optimizer.step()
            print(epoch, round(loss.item(), 4), self.evaluate(self.model))


model = nn.Sequential(nn.Linear(2, 32), Residual(32), Residual(32), nn.LayerNorm(32), nn.Linear(32, 3))
Trainer(model).fit()
