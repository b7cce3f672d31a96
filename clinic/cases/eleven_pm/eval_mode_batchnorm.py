"""11 PM: training is excellent, validation hangs at a bad value."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(305)
imgs = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1)
y = torch.tensor(load_digits().target)
p = torch.randperm(len(y))
imgs, y = imgs[p] / 16 * 3, y[p]


class Net(nn.Module):
    def __init__(self, m=0.001):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16, momentum=m)
        self.fc1 = nn.Linear(16 * 16, 48, bias=False)
        self.bn1 = nn.BatchNorm1d(48, momentum=m)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.fc2(F.relu(self.bn1(self.fc1(x.flatten(1)))))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(14):
    net.train()
    for ids in torch.randperm(1400).split(70):
        loss = F.cross_entropy(net(imgs[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(imgs[1400:])
    print(epoch, f"train {loss.item():.4f} val {F.cross_entropy(out, y[1400:]).item():.4f} acc {(out.argmax(1) == y[1400:]).float().mean():.3f}")
