"""A linear problem solved in fifty steps, trained for seven hundred."""
import torch
from torch import nn

torch.manual_seed(214)
x = torch.randn(1500, 10)
w = torch.randn(10, 1)
y = x @ w / 3 + 0.1 * torch.randn(1500, 1)
model = nn.Linear(10, 1)
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=700)
for step in range(700):
    model.train()
    ids = torch.randint(0, 1200, (64,))
    loss = nn.functional.mse_loss(model(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 70 == 0:
        model.eval()
        with torch.no_grad():
            print(step, round(loss.item(), 5), round(nn.functional.mse_loss(model(x[1200:]), y[1200:]).item(), 5))
