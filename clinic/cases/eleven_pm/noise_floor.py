"""11 PM: train and validation both flat; the learning rate has never been lowered."""
import torch
from torch import nn

torch.manual_seed(302)
x = torch.randn(4000, 20)
with torch.no_grad():
    teacher = nn.Sequential(nn.Linear(20, 24), nn.Tanh(), nn.Linear(24, 1))
    y = teacher(x)
    y = (y - y.mean()) / y.std() + 0.3 * torch.randn(4000, 1)
net = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.09)
for step in range(2400):
    net.train()
    ids = torch.randint(0, 3500, (8,))
    loss = nn.functional.mse_loss(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 79:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.mse_loss(net(x[3500:]), y[3500:]).item():.4f}")
