"""Constant learning rate to the end: good start, then a band that widens."""
import torch
from torch import nn

torch.manual_seed(62)
X = torch.randn(4096, 16)
with torch.no_grad():
    T = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 1))
    Y = T(X)
    Y = (Y - Y.mean()) / Y.std()
net = nn.Sequential(nn.Linear(16, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:3584], Y[:3584]), batch_size=128, shuffle=True)
BOOST_AT = 22
for epoch in range(50):
    if epoch == BOOST_AT:
        for g in opt.param_groups:
            g["lr"] = 1e-1  # speed up the second half
    net.train()
    for a, b in loader:
        loss = nn.functional.mse_loss(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(X[3584:]), Y[3584:]).item()
    if epoch % 4 == 0:
        print(epoch, round(loss.item(), 5), round(val, 5))
