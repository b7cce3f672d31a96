"""Accumulate four micro-batches of very different length; each contributes its own mean."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(108)
V, PAD, ACC = 22, 0, 4
g = torch.Generator().manual_seed(1)


def sentence(lo, hi):
    n = int(torch.randint(lo, hi, (1,), generator=g))
    a, d = (int(torch.randint(1, 6, (1,), generator=g)) for _ in range(2))
    return torch.tensor([(a + d * k) % (V - 1) + 1 for k in range(n)])


short = [sentence(3, 5) for _ in range(400)]
long = [sentence(40, 60) for _ in range(400)]


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(V, 20, padding_idx=PAD)
        self.r = nn.GRU(20, 32, batch_first=True)
        self.o = nn.Linear(32, V)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


net = LM()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(150):
    opt.zero_grad()
    total = 0.0
    for micro in range(ACC):
        pool = long if micro == 0 else short
        rows = [pool[i] for i in torch.randint(0, 350, (8,)).tolist()]
        b = pad_sequence(rows, batch_first=True, padding_value=PAD)
        logits = net(b[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), b[:, 1:].flatten(), ignore_index=PAD)
        (loss / ACC).backward()
        total += loss.item() / ACC
    opt.step()
    if step % 15 == 0:
        print(step, round(total, 4))
