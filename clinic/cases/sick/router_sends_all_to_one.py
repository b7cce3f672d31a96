"""Top-1 mixture of experts without a balancing loss."""
import torch
from torch import nn

torch.manual_seed(113)
E, D = 8, 16
x = torch.randn(4000, D)
group = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
W = torch.randn(4, D, 1)
y = torch.einsum("nd,ndo->no", x, W[group]) / 4


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, E)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(E))
        with torch.no_grad():
            self.router.bias[3] = 4.0  # warm start from a single-expert model

    def forward(self, x):
        gate = torch.softmax(self.router(x), dim=-1)
        top, choice = gate.max(-1)
        out = torch.zeros(len(x), 1)
        for e, expert in enumerate(self.experts):
            sel = choice == e
            if sel.any():
                out[sel] = top[sel, None] * expert(x[sel])
        load = torch.nn.functional.one_hot(choice, E).float().mean(0)
        return out, E * (gate.mean(0) * load).sum()


moe = MoE()
opt = torch.optim.Adam(moe.parameters(), lr=2e-3)
BALANCE = 0.0
for epoch in range(12):
    moe.train()
    for ids in torch.randperm(3500).split(70):
        out, balance = moe(x[ids])
        loss = nn.functional.mse_loss(out, y[ids]) + BALANCE * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
    moe.eval()
    with torch.no_grad():
        out, balance = moe(x[3500:])
    print(epoch, f"{loss.item():.4f} {nn.functional.mse_loss(out, y[3500:]).item():.4f} balance {balance.item():.2f}")
