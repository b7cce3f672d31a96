"""Diabetes progression with momentum SGD."""
import torch
from sklearn.datasets import load_diabetes
from torch import nn

torch.manual_seed(51)
X, y = load_diabetes(return_X_y=True, scaled=False)
X = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32).unsqueeze(1)
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), lr=1.2, momentum=0.9)
for epoch in range(40):
    model.train()
    for ids in torch.randperm(352).split(32):
        loss = nn.functional.mse_loss(model(X[ids]), y[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(X[352:]), y[352:])
    if epoch % 4 == 0:
        print(epoch, loss.item(), val.item())
