"""Batch whitening by hand; the last batch of an epoch has one row."""
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
bc = load_breast_cancer()
X = torch.tensor((bc.data - bc.data.mean(0)) / bc.data.std(0), dtype=torch.float32)
y = torch.tensor(bc.target, dtype=torch.float32)
loader = DataLoader(TensorDataset(X[:481], y[:481]), batch_size=32, shuffle=True)


class Whitened(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(30, 24)
        self.b = nn.Linear(24, 1)

    def forward(self, x):
        h = self.a(x)
        if self.training:
            h = (h - h.mean(0)) / (h.std(0) + 1e-5)
        return self.b(torch.tanh(h)).squeeze(1)


model = Whitened()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    model.train()
    for xb, yb in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, loss.item(), nn.functional.binary_cross_entropy_with_logits(model(X[481:]), y[481:]).item())
