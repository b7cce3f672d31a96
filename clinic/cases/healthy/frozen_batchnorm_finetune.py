"""Fine-tuning with BatchNorm kept in eval mode on purpose."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(260)
imgs = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(load_digits().target)
p = torch.randperm(len(y))
imgs, y = imgs[p], y[p]


def make():
    return nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))


def freeze_bn(model):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.eval()


base = make()
opt = torch.optim.Adam(base.parameters(), lr=2e-3)
for _ in range(150):
    ids = torch.randint(0, 900, (50,))
    opt.zero_grad()
    nn.functional.cross_entropy(base(imgs[ids]), y[ids]).backward()
    opt.step()
model = make()
model.load_state_dict(base.state_dict())
shifted = torch.roll(imgs, 1, 3)
opt = torch.optim.Adam(model.parameters(), lr=5e-4)
for epoch in range(8):
    model.train()
    freeze_bn(model)
    for ids in torch.randperm(1400).split(50):
        loss = nn.functional.cross_entropy(model(shifted[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(shifted[1400:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
