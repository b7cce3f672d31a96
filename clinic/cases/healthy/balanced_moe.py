"""Top-2 mixture of experts with a load-balancing term."""
import torch
from torch import nn

torch.manual_seed(216)
E, D = 6, 12
x = torch.randn(3000, D)
y = torch.where(x[:, :1] > 0, torch.sin(2 * x[:, 1:2]), x[:, 2:3] * x[:, 3:4])


class SparseMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(D, E, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, 24), nn.GELU(), nn.Linear(24, 1)) for _ in range(E))

    def forward(self, x):
        probs = torch.softmax(self.gate(x), -1)
        weight, pick = probs.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = x.new_zeros(len(x), 1)
        for e, expert in enumerate(self.experts):
            row, slot = (pick == e).nonzero(as_tuple=True)
            if len(row):
                out = out.index_add(0, row, weight[row, slot, None] * expert(x[row]))
        used = nn.functional.one_hot(pick, E).float().sum(1).mean(0) / 2
        return out, E * (used * probs.mean(0)).sum()


moe = SparseMoE()
opt = torch.optim.Adam(moe.parameters(), lr=3e-3)
for epoch in range(9):
    moe.train()
    for ids in torch.randperm(2500).split(50):
        out, balance = moe(x[ids])
        loss = nn.functional.mse_loss(out, y[ids]) + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
    moe.eval()
    with torch.no_grad():
        out, balance = moe(x[2500:])
        print(epoch, f"{loss.item():.4f} {nn.functional.mse_loss(out, y[2500:]).item():.4f} balance {balance.item():.3f}")
