"""Warm-up, constant rate, short decay at the end; a pre-norm transformer on sorting."""
import torch
from torch import nn

torch.manual_seed(262)
V, T, D, STEPS = 10, 8, 32, 330


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.02)
        layer = nn.TransformerEncoderLayer(D, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(D, V)

    def forward(self, x):
        return self.out(self.enc(self.tok(x) + self.pos))


def rate(s):
    return min((s + 1) / 40, 1.0, max(0.0, (STEPS - s) / 60))


net = Sorter()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
for step in range(STEPS):
    x = torch.randint(0, V, (32, T))
    y = x.sort(1).values
    loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 33 == 0:
        print(step, f"{loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")
