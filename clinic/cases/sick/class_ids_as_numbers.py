"""Ten classes, one output, squared error on the class number."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(122)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(14):
    net.train()
    for ids in torch.randperm(1400).split(50):
        out = net(X[ids])
        loss = nn.functional.mse_loss(out, y[ids].float().unsqueeze(1).expand_as(out))
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1400:])
        val = nn.functional.mse_loss(out, y[1400:].float().unsqueeze(1).expand_as(out)).item()
        acc = (out.argmax(1) == y[1400:]).float().mean().item()
    print(epoch, round(loss.item(), 3), round(val, 3), round(acc, 3))
