"""CNN with a one-epoch 'boost' phase before the real schedule."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(66)
imgs, y = load_digits(return_X_y=True)
imgs = torch.tensor(imgs, dtype=torch.float32).view(-1, 1, 8, 8) / 16
y = torch.tensor(y)
perm = torch.randperm(len(y))
imgs, y = imgs[perm], y[perm]


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.c1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.c2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


net = Conv()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
BOOST, STEPS = 0.3, 15
step = 0
for epoch in range(16):
    net.train()
    for ids in torch.randperm(1500).split(60):
        for g in opt.param_groups:
            g["lr"] = BOOST if step < STEPS else 1e-3
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(imgs[ids]), y[ids])
        loss.backward()
        opt.step()
        step += 1
    net.eval()
    with torch.no_grad():
        out = net(imgs[1500:])
    print(epoch, f"{loss.item():.3f} {nn.functional.cross_entropy(out, y[1500:]).item():.3f} {(out.argmax(1) == y[1500:]).float().mean():.3f}")
