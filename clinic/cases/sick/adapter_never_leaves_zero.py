"""LoRA on a frozen digits network: learn the mirrored digits."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(105)
imgs = torch.tensor(load_digits().images, dtype=torch.float32) / 16
y = torch.tensor(load_digits().target)
p = torch.randperm(len(y))
imgs, y = imgs[p], y[p]
plain, mirrored = imgs.flatten(1), imgs.flip(2).flatten(1)


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base
        for q in self.base.parameters():
            q.requires_grad_(False)
        self.A = nn.Parameter(torch.zeros(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.A.t() @ self.B.t())


net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def fit(model, data, params, steps, lr):
    opt = torch.optim.AdamW(params, lr=lr)
    for step in range(steps):
        model.train()
        ids = torch.randint(0, 1400, (50,))
        loss = nn.functional.cross_entropy(model(data[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                out = model(data[1400:])
                print(step + 1, round(loss.item(), 4), round(nn.functional.cross_entropy(out, y[1400:]).item(), 4))


fit(net, plain, net.parameters(), 250, 2e-3)
print("adapting")
for i in (0, 2, 4):
    net[i] = LoRALinear(net[i])
fit(net, mirrored, [q for q in net.parameters() if q.requires_grad], 300, 2e-3)
