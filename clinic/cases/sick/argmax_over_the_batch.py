"""The loss is fine, the accuracy is 10 percent."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(92)
d = load_digits()
X, y = torch.tensor(d.data / 16, dtype=torch.float32), torch.tensor(d.target)
p = torch.randperm(len(X))
train = DataLoader(TensorDataset(X[p[:1400]], y[p[:1400]]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(X[p[1400:1790]], y[p[1400:1790]]), batch_size=10)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 96), nn.Linear(96, 10)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def accuracy(logits, target):
    return (logits.argmax(dim=0) == target).float().mean().item()


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(12):
    net.train()
    for xb, yb in train:
        opt.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        opt.step()
    net.eval()
    losses, accs = [], []
    with torch.no_grad():
        for xb, yb in valid:
            out = net(xb)
            losses.append(criterion(out, yb).item())
            accs.append(accuracy(out, yb))
    print(f"epoch {epoch:2d} val_loss {sum(losses) / len(losses):.4f} val_acc {sum(accs) / len(accs):.4f}")
