"""Triplet loss with random negatives: many triplets are easy and cost nothing."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(250)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
by_class = [(y == c).nonzero().flatten() for c in range(10)]


def triplets(n):
    a_cls = torch.randint(0, 10, (n,))
    n_cls = (a_cls + torch.randint(1, 10, (n,))) % 10
    draw = lambda c: by_class[c][torch.randint(0, len(by_class[c]), (1,))]
    a = torch.cat([draw(int(c)) for c in a_cls])
    p = torch.cat([draw(int(c)) for c in a_cls])
    q = torch.cat([draw(int(c)) for c in n_cls])
    return X[a], X[p], X[q]


net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.TripletMarginLoss(margin=0.5)
for step in range(500):
    a, p, q = triplets(48)
    loss = criterion(net(a), net(p), net(q))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, round(loss.item(), 4))
