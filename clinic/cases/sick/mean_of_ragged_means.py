"""Validation loss as the mean over batches; the last batch holds three hard samples."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(96)
x = torch.randn(1503, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
y[1500:] = 1 - y[1500:]  # the tail of the file was entered by a trainee
train = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=40, shuffle=True)
valid = DataLoader(TensorDataset(x[1003:], y[1003:]), batch_size=166)
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.3)
ce = nn.CrossEntropyLoss()
for epoch in range(12):
    net.train()
    for a, b in train:
        loss = ce(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        losses = [ce(net(a), b).item() for a, b in valid]
    print(epoch, f"{loss.item():.4f} val {sum(losses) / len(losses):.4f}")
