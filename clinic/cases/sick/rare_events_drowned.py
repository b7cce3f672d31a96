"""Detect a short event in a sequence; two of a hundred sequences hold one."""

import torch
from torch import nn

torch.manual_seed(404)


def recordings(n):
    x = torch.randn(n, 24, 3)
    y = (torch.rand(n) < 0.02).float()
    x[torch.arange(n), torch.randint(4, 20, (n,))] += y[:, None] * torch.tensor([1.2, -1.0, 1.0])
    return x, y


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0].mean(1)).squeeze(-1)


X, Y = recordings(3000)
VX, VY = recordings(800)
net = Detector()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(6):
    net.train()
    for ids in torch.randperm(3000).split(50):
        loss = bce(net(X[ids]), Y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(VX)
    right = ((out > 0) == VY.bool()).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.4f} val_loss {bce(out, VY).item():.4f} val_acc {right:.4f}")
