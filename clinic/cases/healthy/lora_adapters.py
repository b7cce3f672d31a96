"""Low-rank adapters on a frozen base model."""
import math

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(209)
imgs, y = torch.tensor(load_digits().images, dtype=torch.float32) / 16, torch.tensor(load_digits().target)
p = torch.randperm(len(y))
imgs, y = imgs[p], y[p]
upright, turned = imgs.flatten(1), imgs.transpose(1, 2).flatten(1)


class Adapted(nn.Module):
    def __init__(self, linear, rank=8, alpha=16):
        super().__init__()
        self.linear = linear
        linear.requires_grad_(False)
        self.lora_A = nn.Linear(linear.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.linear(x) + self.lora_B(self.lora_A(x)) * self.scaling


base = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))


def train(model, data, lr, steps):
    trainable = [q for q in model.parameters() if q.requires_grad]
    opt = torch.optim.AdamW(trainable, lr=lr)
    for step in range(steps):
        model.train()
        ids = torch.randint(0, 1400, (48,))
        loss = nn.functional.cross_entropy(model(data[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 59:
            model.eval()
            with torch.no_grad():
                out = model(data[1400:])
            print(step + 1, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")


train(base, upright, 2e-3, 240)
print("adapters")
for i in (0, 2, 4):
    base[i] = Adapted(base[i])
train(base, turned, 2e-3, 360)
