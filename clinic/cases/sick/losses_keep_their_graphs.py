"""The running loss keeps every graph alive."""
import torch
from torch import nn

torch.manual_seed(99)
x = torch.randn(2000, 32)
y = x[:, :4].sum(1, keepdim=True) + 0.1 * torch.randn(2000, 1)
net = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
history = []
running = 0.0
for step in range(800):
    ids = torch.randint(0, 1600, (64,))
    loss = nn.functional.mse_loss(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = running + loss
    history.append(loss)
    if step % 80 == 79:
        print(step + 1, f"{(running / (step + 1)).item():.4f}")
