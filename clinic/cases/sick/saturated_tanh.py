"""Tabular classifier with hand-made initial weights."""
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

np.random.seed(67)
torch.manual_seed(67)
bc = load_breast_cancer()
X = torch.tensor((bc.data - bc.data.mean(0)) / bc.data.std(0), dtype=torch.float32)
y = torch.tensor(bc.target)
ids = np.random.permutation(len(X))
tr, va = ids[:450], ids[450:]

net = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 2))
for m in net:
    if isinstance(m, nn.Linear):
        m.weight.data = torch.tensor(np.random.randn(*m.weight.shape), dtype=torch.float32)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
ce = nn.CrossEntropyLoss()
for epoch in range(30):
    net.train()
    np.random.shuffle(tr)
    for i in range(0, 450, 30):
        b = torch.from_numpy(tr[i : i + 30])
        loss = ce(net(X[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = ce(net(X[torch.from_numpy(va)]), y[torch.from_numpy(va)]).item()
    if epoch % 3 == 0:
        print(epoch, round(loss.item(), 4), round(val, 4))
