"""An endless iterator that is not endless."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(90)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
o = torch.randperm(len(X))
loader = DataLoader(TensorDataset(X[o[:1500]], y[o[:1500]]), batch_size=50)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(500):
    model.train()
    xb, yb = next(iter(loader))
    loss = nn.functional.cross_entropy(model(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            out = model(X[o[1500:]])
        print(step, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[o[1500:]]).item():.4f}")
