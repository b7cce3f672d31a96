"""Breast cancer classifier; the learning rate drops every eight epochs."""
import torch
import torch.nn as nn
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(54)
X, y = load_breast_cancer(return_X_y=True)
Xtr, Xte, ytr, yte = train_test_split(X, y, random_state=54, stratify=y)
scale = StandardScaler().fit(Xtr)
as_tensor = lambda a: torch.tensor(a, dtype=torch.float32)
train = DataLoader(TensorDataset(as_tensor(scale.transform(Xtr)), as_tensor(ytr)), batch_size=16, shuffle=True)
Xte, yte = as_tensor(scale.transform(Xte)), as_tensor(yte)

net = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
sched = StepLR(opt, step_size=8, gamma=0.5)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(24):
    net.train()
    total = 0
    for xb, yb in train:
        opt.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item() * len(yb)
    net.eval()
    with torch.no_grad():
        val = criterion(net(Xte), yte).item()
    print(f"epoch {epoch + 1}: train {total / len(train.dataset):.4f} val {val:.4f}")
