"""Every sample is decoded anew on the training process."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(98)
        self.freq = torch.rand(n, generator=g) * 0.8 + 0.1
        self.label = (self.freq > 0.5).long()

    def __len__(self):
        return len(self.freq)

    def __getitem__(self, i):
        f = float(self.freq[i])
        wave = [math.sin(f * t) + 0.3 * math.sin(3.1 * f * t + i) for t in range(900)]  # "decode"
        x = torch.tensor(wave).view(30, 30).mean(1)
        return x, self.label[i]


torch.manual_seed(98)
loader = DataLoader(Spectra(600), batch_size=30, shuffle=True)
net = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(12):
    net.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
