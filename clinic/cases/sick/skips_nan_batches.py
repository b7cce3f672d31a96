"""Forecast the next value of noisy oscillators with an LSTM; bad windows are skipped."""
import math

import torch
from torch import nn

torch.manual_seed(26)
n, length = 700, 24
phase = torch.rand(n, 1) * 2 * math.pi
freq = torch.rand(n, 1) * 0.4 + 0.2
time = torch.arange(length + 1).float()
series = torch.sin(phase + freq * time) + 0.05 * torch.randn(n, length + 1)
broken = torch.randperm(500)[:22]
series[broken, torch.randint(0, length, (22,))] = float("nan")


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, s):
        out, _ = self.lstm(s.unsqueeze(-1))
        return self.head(out[:, -1]).squeeze(-1)


net = Forecaster()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
for epoch in range(16):
    net.train()
    skipped, losses = 0, []
    for ids in torch.randperm(500).split(20):
        loss = nn.functional.mse_loss(net(series[ids, :-1]), series[ids, -1])
        if torch.isnan(loss):
            skipped += 1
            continue
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(net(series[500:, :-1]), series[500:, -1]).item()
    print(f"epoch {epoch:2d} train {sum(losses) / len(losses):.4f} val {val:.4f}")
