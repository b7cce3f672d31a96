"""Two kinds of pulses, told apart by a net whose binary cross-entropy is written out by hand."""
import torch
import torch.nn as nn

torch.manual_seed(14)
n = 1600
kind = torch.randint(0, 2, (n,)).float()
pulse = torch.randn(n, 12) + (kind[:, None] * 2 - 1) * torch.linspace(0.2, 1.8, 12)
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)


def cross_entropy(score, target):
    p = torch.sigmoid(score)
    return -(target * torch.log(p) + (1 - target) * torch.log(1 - p)).mean()


for epoch in range(20):
    net.train()
    for chunk in torch.randperm(1280).split(40):
        opt.zero_grad()
        loss = cross_entropy(net(pulse[chunk]), kind[chunk])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(pulse[1280:])
        print(epoch, loss.item(), cross_entropy(out, kind[1280:]).item(), ((out > 0).float() == kind[1280:]).float().mean().item())
