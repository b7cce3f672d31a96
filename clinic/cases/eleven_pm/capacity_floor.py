"""11 PM: train and validation are equal and flat; the model is too small."""
import torch
from torch import nn

torch.manual_seed(308)
x = torch.rand(3000, 2) * 4 - 2
y = torch.sin(3 * x[:, :1]) * torch.cos(3 * x[:, 1:]) + 0.5 * x[:, :1]
net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=1800, eta_min=5e-4)
for step in range(1800):
    net.train()
    ids = torch.randint(0, 2500, (100,))
    loss = nn.functional.mse_loss(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 60 == 59:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.mse_loss(net(x[2500:]), y[2500:]).item():.4f}")
