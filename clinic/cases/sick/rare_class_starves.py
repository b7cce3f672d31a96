"""Three classes, the third in one of a hundred rows, batches of sixteen."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(126)
n = 5000
x = torch.randn(n, 8)
s = x[:, 0] + 0.3 * x[:, 1]
y = (s > 0).long()
y[(x[:, 2] > 1.9) & (s > -0.2) & (torch.rand(n) < 0.6)] = 2
loader = DataLoader(TensorDataset(x[:4000], y[:4000]), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(4):
    net.train()
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(x[4000:])
    print(epoch, f"val {nn.functional.cross_entropy(out, y[4000:]).item():.4f} accuracy {(out.argmax(1) == y[4000:]).float().mean():.4f}")
