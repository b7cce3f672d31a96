"""Cross-entropy written out by hand."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(14)
x, y = load_digits(return_X_y=True)
x = torch.tensor(x, dtype=torch.float32)
x = (x - x.mean(0)) / (x.std(0) + 1e-3)
y = torch.tensor(y)
idx = torch.randperm(len(x))
xt, yt, xv, yv = x[idx[:1400]], y[idx[:1400]], x[idx[1400:]], y[idx[1400:]]

net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)


def my_cross_entropy(scores, target):
    probs = torch.softmax(scores, dim=1)
    picked = probs[torch.arange(len(target)), target]
    return -torch.log(picked).mean()


for epoch in range(15):
    net.train()
    for chunk in torch.randperm(1400).split(56):
        opt.zero_grad()
        loss = my_cross_entropy(20 * net(xt[chunk]), yt[chunk])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = 20 * net(xv)
        print(epoch, loss.item(), my_cross_entropy(out, yv).item(), (out.argmax(1) == yv).float().mean().item())
