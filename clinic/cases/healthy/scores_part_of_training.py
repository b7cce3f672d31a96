"""A part of the training set is scored beside the validation set."""
import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
torch.manual_seed(0)
X = torch.randn(2500, 14); Y = ((X[:, :3].sum(1) + X[:, 3] * X[:, 4] + .6 * torch.randn(2500)) > 0).long(); ds = TensorDataset(X, Y)
train, val = Subset(ds, range(2000)), Subset(ds, range(2000, 2500)); loader = DataLoader(train, 40, shuffle=True); train_eval, val_eval = DataLoader(Subset(train, range(500)), 250), DataLoader(val, 250)
net = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Dropout(.3), nn.Linear(48, 2)); opt = torch.optim.Adam(net.parameters(), 1e-3)
@torch.no_grad()
def score(dl): net.eval(); l = np.mean([nn.functional.cross_entropy(net(x), y).item() for x, y in dl]); net.train(); return l
for e in range(10):
    for x, y in loader: l = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); l.backward(); opt.step()
    print(f"epoch {e} train {score(train_eval):.4f} val {score(val_eval):.4f}")
