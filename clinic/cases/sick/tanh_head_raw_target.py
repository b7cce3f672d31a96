"""Predict disease progression one year after baseline (diabetes data)."""
import torch
import torch.nn as nn
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

torch.manual_seed(4)
X, y = load_diabetes(return_X_y=True)
y = (y - y.mean()) / y.std()
X = X / X.std(axis=0)
Xa, Xb, ya, yb = (torch.tensor(a, dtype=torch.float32) for a in train_test_split(X, y, test_size=0.25, random_state=0))


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 24)
        self.fc2 = nn.Linear(24, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return torch.tanh(self.out(x)).squeeze(-1)


reg = Regressor()
opt = torch.optim.Adam(reg.parameters(), lr=1e-3, weight_decay=1e-3)
mse = nn.MSELoss()
for it in range(1, 601):
    reg.train()
    i = torch.randint(0, len(Xa), (40,))
    loss = mse(reg(Xa[i]), ya[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 50 == 0:
        reg.eval()
        with torch.no_grad():
            print(f"iter {it} train {mse(reg(Xa), ya):.4f} test {mse(reg(Xb), yb):.4f}")
