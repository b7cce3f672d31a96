import torch
import torch.nn as nn
from sklearn.datasets import load_wine

torch.manual_seed(9)
bunch = load_wine()
X = torch.tensor((bunch.data - bunch.data.mean(0)) / bunch.data.std(0), dtype=torch.float32)
y = torch.tensor(bunch.target)
perm = torch.randperm(178)
Xt, yt, Xv, yv = X[perm[:138]], y[perm[:138]], X[perm[138:]], y[perm[138:]]

model = nn.Sequential(nn.Linear(13, 20), nn.Tanh(), nn.Linear(20, 3))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(60):
    model.train()
    for ids in torch.randperm(138).split(23):
        pred = model(Xt[ids])
        loss = loss_fn(pred, yt[ids])
        loss.backward()
        opt.zero_grad()
        opt.step()
    if epoch % 6 == 0:
        model.eval()
        with torch.no_grad():
            val = loss_fn(model(Xv), yv)
        print(f"epoch={epoch} loss={loss.item():.4f} val={val.item():.4f}")
