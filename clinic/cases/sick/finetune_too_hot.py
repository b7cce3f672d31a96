"""Adapt a digits network to a dirtier scanner with a hundred samples."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(106)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
dirty = (0.6 * X + 0.15 + 0.15 * torch.randn_like(X)).clamp(0, 1)


def build():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


net = build()
pre = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(300):
    ids = torch.randint(0, 1000, (64,))
    loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
    pre.zero_grad()
    loss.backward()
    pre.step()
weights = {k: v.clone() for k, v in net.state_dict().items()}
print("pretrained", loss.item())

model = build()
model.load_state_dict(weights)
opt = torch.optim.AdamW(model.parameters(), lr=3e-2, weight_decay=0.0)
small_x, small_y = dirty[1000:1120], y[1000:1120]
for epoch in range(25):
    model.train()
    for ids in torch.randperm(120).split(12):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(small_x[ids]), small_y[ids])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(dirty[1120:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1120:]).item():.4f} {(out.argmax(1) == y[1120:]).float().mean():.3f}")
