"""MLP with a bias initialisation from an old paper."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(65)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]


class Net(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.l1 = nn.Linear(64, h)
        self.l2 = nn.Linear(h, h)
        self.l3 = nn.Linear(h, 10)
        for m in (self.l1, self.l2):
            nn.init.kaiming_normal_(m.weight)
        nn.init.zeros_(self.l1.bias)
        nn.init.normal_(self.l2.bias, -2.5, 1.0)

    def forward(self, x):
        x = torch.relu(self.l1(x))
        x = torch.relu(self.l2(x))
        return self.l3(x)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
for epoch in range(16):
    net.train()
    for b in torch.randperm(1500).split(60):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(X[b]), y[b])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1500:])
        print(epoch, round(loss.item(), 4), round(nn.functional.cross_entropy(out, y[1500:]).item(), 4))
