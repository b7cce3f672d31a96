"""Predicting a house's heating need; the iterator over the loader is made once."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(63)
house = torch.randn(1500, 9)
need = torch.tanh(house[:, 0] + house[:, 1] * house[:, 2]) + 0.1 * torch.randn(1500)
loader = DataLoader(TensorDataset(house[:1200], need[:1200]), batch_size=30, shuffle=True)
batches = iter(loader)
net = nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 1), nn.Flatten(0))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
mse = nn.MSELoss()
for epoch in range(15):
    net.train()
    for inputs, target in batches:
        opt.zero_grad()
        loss = mse(net(inputs), target)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.4f} {mse(net(house[1200:]), need[1200:]).item():.4f}")
