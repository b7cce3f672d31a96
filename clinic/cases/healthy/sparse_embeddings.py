"""Matrix factorisation with sparse gradients and SparseAdam."""
import torch
from torch import nn

torch.manual_seed(215)
U, I = 300, 200
tu, ti = torch.randn(U, 3), torch.randn(I, 3)
u, i = torch.randint(0, U, (8000,)), torch.randint(0, I, (8000,))
r = (tu[u] * ti[i]).sum(1) / 3 + 0.1 * torch.randn(8000)


class Factors(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.user, self.item = nn.Embedding(U, d, sparse=True), nn.Embedding(I, d, sparse=True)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)

    def forward(self, a, b):
        return (self.user(a) * self.item(b)).sum(1)


model = Factors()
opt = torch.optim.SparseAdam(list(model.parameters()), lr=5e-3)
for epoch in range(14):
    model.train()
    for ids in torch.randperm(7000).split(200):
        loss = nn.functional.mse_loss(model(u[ids], i[ids]), r[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(u[7000:], i[7000:]), r[7000:]).item()
    print(epoch, round(loss.item(), 4), round(val, 4))
