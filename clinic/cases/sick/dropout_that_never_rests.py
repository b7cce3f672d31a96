"""Rating wines with a small net; dropout is written as a function."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(61)
x = torch.randn(1800, 14)
grade = (x @ torch.randn(14, 5) + 0.6 * torch.randn(1800, 5)).argmax(1)


class Taster(nn.Module):
    def __init__(self):
        super().__init__()
        self.nose = nn.Linear(14, 96)
        self.palate = nn.Linear(96, 48)
        self.grade = nn.Linear(48, 5)

    def forward(self, v):
        h = F.relu(self.nose(v))
        h = F.dropout(h, 0.4)
        return self.grade(F.relu(self.palate(h)))


net = Taster()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(14):
    net.train()
    for ids in torch.randperm(1400).split(35):
        opt.zero_grad()
        loss = F.cross_entropy(net(x[ids]), grade[ids])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = F.cross_entropy(net(x[1400:]), grade[1400:])
    print(epoch, f"{loss.item():.3f} {val.item():.3f}")
