"""Old but correct: Sigmoid in the model, BCELoss outside."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

torch.manual_seed(247)
X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32).unsqueeze(1)
p = torch.randperm(len(X))
tr, va = p[:440], p[440:]
model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-2)
loss_fn = nn.BCELoss()
for epoch in range(30):
    model.train()
    for ids in tr[torch.randperm(440)].split(22):
        loss = loss_fn(model(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = loss_fn(model(X[va]), y[va]).item()
    if epoch % 3 == 0:
        print(epoch, round(loss.item(), 4), round(val, 4))
