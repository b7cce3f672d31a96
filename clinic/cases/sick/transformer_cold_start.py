"""Post-norm transformer on a copy-and-sort task, full learning rate from the first step."""
import torch
import torch.nn as nn

torch.manual_seed(57)
V, T, D = 12, 10, 48


def make_batch(n):
    x = torch.randint(0, V, (n, T))
    return x, x.sort(1).values


class Sorter(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.tok = nn.Embedding(V, D)
        self.pos = nn.Parameter(torch.randn(T, D) * 0.1)
        layer = nn.TransformerEncoderLayer(D, 4, 96, dropout=0.0, batch_first=True, norm_first=False)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(D, V)

    def forward(self, x):
        return self.out(self.enc(self.tok(x) + self.pos))


model = Sorter()
peak = 0.05
opt = torch.optim.Adam(model.parameters(), lr=peak)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.02, 1 - s / 400))
for step in range(400):
    x, y = make_batch(32)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 40 == 0:
        print(step, round(loss.item(), 4))
