"""Six micro-batches per update, each loss divided by six."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(219)
X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
y = torch.tensor(y)
p = torch.randperm(len(X))
loader = DataLoader(TensorDataset(X[p[:432]], y[p[:432]]), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
accumulate = 6
for epoch in range(30):
    model.train()
    for k, (a, b) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(a), b)
        (loss / accumulate).backward()
        if (k + 1) % accumulate == 0:
            opt.step()
            opt.zero_grad(set_to_none=True)
    model.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(model(X[p[432:]]), y[p[432:]]).item()
    if epoch % 3 == 0:
        print(epoch, round(loss.item(), 4), round(val, 4))
