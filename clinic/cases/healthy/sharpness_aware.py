"""SAM: two forward and backward passes for every update."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(220)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
RHO = 0.05
for epoch in range(14):
    net.train()
    for ids in torch.randperm(1450).split(58):
        loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = torch.sqrt(sum(q.grad.pow(2).sum() for q in net.parameters())) + 1e-12
            moves = [q.grad * (RHO / norm) for q in net.parameters()]
            for q, e in zip(net.parameters(), moves):
                q.add_(e)
        opt.zero_grad()
        nn.functional.cross_entropy(net(X[ids]), y[ids]).backward()
        with torch.no_grad():
            for q, e in zip(net.parameters(), moves):
                q.sub_(e)
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(X[1450:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1450:]).item():.4f}")
