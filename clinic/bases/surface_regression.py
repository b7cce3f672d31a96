"""Regression of a smooth surface with noise."""
import torch
from torch import nn

SEED = 0
STEPS = 600
BATCH = 50
LR = 2e-3

torch.manual_seed(SEED)
points = torch.rand(1800, 4) * 4 - 2
height = torch.sin(points[:, :1] * 1.5) + points[:, 1:2] * points[:, 2:3] / 2 + 0.1 * torch.randn(1800, 1)
height = (height - height.mean()) / height.std()
px, py, qx, qy = points[:1500], height[:1500], points[1500:], height[1500:]

net = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
opt = torch.optim.Adam(net.parameters(), lr=LR, weight_decay=1e-4)


def evaluate(net):
    net.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(net(qx), qy).item()


for step in range(STEPS):
    net.train()
    pick = torch.randint(0, len(px), (BATCH,))
    goal = py[pick]
    pred = net(px[pick])
    loss = nn.functional.mse_loss(pred, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if (step + 1) % 40 == 0:
        print(f"{step + 1:4d} {loss.item():.4f} {evaluate(net):.4f}")
