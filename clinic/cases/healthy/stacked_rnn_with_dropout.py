"""Two-layer GRU with dropout between layers; sine-wave classification."""
import math

import torch
from torch import nn

torch.manual_seed(244)
n, T = 1200, 24
freq = torch.randint(0, 3, (n,))
t = torch.arange(T).float()
wave = torch.sin(t * (0.3 + 0.25 * freq[:, None]) + 2 * math.pi * torch.rand(n, 1)) + 0.25 * torch.randn(n, T)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 24, num_layers=2, dropout=0.3, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, w):
        return self.head(self.gru(w.unsqueeze(-1))[0].mean(1))


net = WaveNet()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
for epoch in range(10):
    net.train()
    for ids in torch.randperm(1000).split(40):
        loss = nn.functional.cross_entropy(net(wave[ids]), freq[ids])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(wave[1000:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, freq[1000:]).item():.4f}")
