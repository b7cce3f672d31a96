"""Gated MLP with a memory-saving in-place gate."""
import torch
import torch.nn as nn
from sklearn.datasets import load_wine

torch.manual_seed(40)
d = load_wine()
X = torch.tensor((d.data - d.data.mean(0)) / d.data.std(0), dtype=torch.float32)
Y = torch.tensor(d.target)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(13, 32)
        self.gate = nn.Linear(13, 32)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        v = torch.tanh(self.value(x))
        h = g * v
        if self.training:
            g.mul_(0.98)  # decay the gate a little
        return self.out(h)


model = Gated()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    i = torch.randint(0, 178, (32,))
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(X[i]), Y[i])
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, loss.item())
