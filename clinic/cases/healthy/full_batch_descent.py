"""Plain gradient descent on the whole data set; successive gradients are nearly parallel."""
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(229)
w = load_wine()
X, y = torch.tensor((w.data - w.data.mean(0)) / w.data.std(0), dtype=torch.float32), torch.tensor(w.target)
p = torch.randperm(len(X))
Xt, yt, Xv, yv = X[p[:140]], y[p[:140]], X[p[140:]], y[p[140:]]
net = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(500):
    net.train()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(Xt), yt)
    loss.backward()
    opt.step()
    if step % 50 == 0:
        net.eval()
        with torch.no_grad():
            print(step, round(loss.item(), 5), round(nn.functional.cross_entropy(net(Xv), yv).item(), 5))
