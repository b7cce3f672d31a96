"""Mixture of experts on a piecewise function."""
import torch
from torch import nn

SEED = 0
EPOCHS = 7
BATCH = 60
LR = 3e-3
EXPERTS = 6
BALANCE = 0.02

torch.manual_seed(SEED)
x = torch.randn(2400, 10)
y = torch.where(x[:, :1] > 0, torch.sin(2 * x[:, 1:2]), 0.5 * x[:, 2:3] * x[:, 3:4]) + 0.05 * torch.randn(2400, 1)


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(10, EXPERTS)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 1)) for _ in range(EXPERTS))

    def forward(self, x):
        gate = torch.softmax(self.router(x), -1)
        top, pick = gate.max(-1)
        out = x.new_zeros(len(x), 1)
        for e, expert in enumerate(self.experts):
            rows = (pick == e).nonzero().flatten()
            if len(rows):
                out = out.index_add(0, rows, top[rows, None] * expert(x[rows]))
        share = nn.functional.one_hot(pick, EXPERTS).float().mean(0)
        return out, EXPERTS * (share * gate.mean(0)).sum()


moe = MoE()
opt = torch.optim.Adam(moe.parameters(), lr=LR)
for epoch in range(EPOCHS):
    moe.train()
    for ids in torch.randperm(2000).split(BATCH):
        out, balance = moe(x[ids])
        loss = nn.functional.mse_loss(out, y[ids]) + BALANCE * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
    moe.eval()
    with torch.no_grad():
        out, balance = moe(x[2000:])
    print(epoch, round(loss.item(), 4), round(nn.functional.mse_loss(out, y[2000:]).item(), 4), round(balance.item(), 2))
