"""Two parameter groups; the embedding group's rate comes from a config that was never filled in."""
import torch
from torch import nn

torch.manual_seed(61)
users, items = 120, 90
u = torch.randint(0, users, (6000,))
i = torch.randint(0, items, (6000,))
truth_u, truth_i = torch.randn(users, 4), torch.randn(items, 4)
rating = (truth_u[u] * truth_i[i]).sum(1) / 2 + 0.2 * torch.randn(6000)


class Recommender(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, a, b):
        p, q = self.user(a), self.item(b)
        return (p * q).sum(1) + self.mlp(torch.cat([p, q], 1)).squeeze(1)


cfg = {"mlp_lr": 3e-3, "embedding_lr": 0.0, "wd": 1e-4}
model = Recommender()
tables = [model.user.weight, model.item.weight]
opt = torch.optim.AdamW([{"params": tables, "lr": cfg["embedding_lr"]}, {"params": model.mlp.parameters(), "lr": cfg["mlp_lr"]}], weight_decay=cfg["wd"])
for epoch in range(12):
    model.train()
    for ids in torch.randperm(5000).split(100):
        loss = nn.functional.mse_loss(model(u[ids], i[ids]), rating[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(u[5000:], i[5000:]), rating[5000:]).item()
    print(epoch, round(loss.item(), 3), round(val, 3))
