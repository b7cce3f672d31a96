"""Copy task whose sequences grow longer every few hundred steps."""
import torch
from torch import nn

torch.manual_seed(211)
V = 8


def task(n, length):
    s = torch.randint(1, V, (n, length))
    blank = torch.zeros(n, length, dtype=torch.long)
    return torch.cat([s, blank], 1), s


class Copier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 16)
        self.gru = nn.GRU(16, 64, batch_first=True)
        self.out = nn.Linear(64, V)

    def forward(self, x, length):
        return self.out(self.gru(self.emb(x))[0][:, length:])


net = Copier()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(600):
    length = 2 + step // 200
    x, y = task(32, length)
    loss = nn.functional.cross_entropy(net(x, length).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 50 == 49:
        print(step + 1, length, round(loss.item(), 4))
