"""Few labels, large network, many epochs."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(74)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X), generator=torch.Generator().manual_seed(2))
noisy = y.clone()
flip = torch.rand(len(y)) < 0.15  # crowd-sourced labels
noisy[flip] = torch.randint(0, 10, (int(flip.sum()),))
train_dl = DataLoader(TensorDataset(X[p[:400]], noisy[p[:400]]), batch_size=25, shuffle=True)
val_x, val_y = X[p[400:1400]], noisy[p[400:1400]]

net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
ce = nn.CrossEntropyLoss()
for epoch in range(60):
    net.train()
    running = 0.0
    for xb, yb in train_dl:
        opt.zero_grad()
        loss = ce(net(xb), yb)
        loss.backward()
        opt.step()
        running += loss.item()
    net.eval()
    with torch.no_grad():
        out = net(val_x)
        val = ce(out, val_y).item()
    if epoch % 4 == 0:
        print(f"epoch {epoch:3d} train {running / len(train_dl):.4f} val {val:.4f} acc {(out.argmax(1) == val_y).float().mean():.3f}")
