"""Full-batch L-BFGS with a closure on the diabetes data."""
import torch
from sklearn.datasets import load_diabetes
from torch import nn

torch.manual_seed(221)
X, y = load_diabetes(return_X_y=True)
X = torch.tensor(X / X.std(0), dtype=torch.float32)
y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32).unsqueeze(1)
Xt, yt, Xv, yv = X[:350], y[:350], X[350:], y[350:]
net = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, history_size=10)


def closure():
    opt.zero_grad()
    penalty = sum((w**2).sum() for w in net.parameters())
    loss = nn.functional.mse_loss(net(Xt), yt) + 0.01 * penalty
    loss.backward()
    return loss


for it in range(40):
    net.train()
    loss = opt.step(closure)
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(Xv), yv).item()
    if it % 5 == 0:
        print(it, round(loss.item(), 5), round(val, 5))
