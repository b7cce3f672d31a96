"""11 PM: it looks flat on the linear axis; it is a power law."""
import torch
from torch import nn

torch.manual_seed(307)
d = 120
scales = torch.arange(1, d + 1).float() ** -1.1
x = torch.randn(3000, d) * scales
w = torch.randn(d, 1) * torch.arange(1, d + 1).float() ** 0.25
y = x @ w
y = (y - y.mean()) / y.std() + 0.02 * torch.randn(3000, 1)
net = nn.Linear(d, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.08)
for step in range(2000):
    net.train()
    ids = torch.randint(0, 2500, (100,))
    loss = nn.functional.mse_loss(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 80 == 79:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.mse_loss(net(x[2500:]), y[2500:]).item():.4f}")
