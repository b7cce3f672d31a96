"""One-cycle policy for a small convolutional net."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(202)
imgs = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1)
imgs = (imgs - imgs.mean()) / imgs.std()
y = torch.tensor(load_digits().target)
p = torch.randperm(len(y))
tr, te = p[:1408], p[1408:]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(12)
        self.c2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(24)
        self.out = nn.Linear(24, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.relu(self.b2(self.c2(x)))
        return self.out(x.mean((2, 3)))


net = ConvNet()
EPOCHS, BS = 9, 64
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=EPOCHS * (1408 // BS))
for epoch in range(EPOCHS):
    net.train()
    for ids in tr[torch.randperm(1408)].split(BS):
        loss = F.cross_entropy(net(imgs[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    net.eval()
    with torch.no_grad():
        out = net(imgs[te])
    print(f"epoch {epoch} train {loss.item():.3f} val {F.cross_entropy(out, y[te]).item():.3f} acc {(out.argmax(1) == y[te]).float().mean():.3f}")
