"""Sequence classification with a GRU and 'safe' gradient clipping."""
import torch
from torch import nn

torch.manual_seed(56)
N, T = 1400, 12
steps = torch.randn(N, T, 3)
up = (steps[:, :, 0].sum(1) + 0.5 * steps[:, -1, 1] > 0).long()


class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 32, batch_first=True)
        self.out = nn.Linear(32, 2)

    def forward(self, s):
        return self.out(self.gru(s)[1][-1])


net = Walk()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
ce = nn.CrossEntropyLoss()
for epoch in range(20):
    net.train()
    for ids in torch.randperm(1200).split(40):
        opt.zero_grad()
        loss = ce(net(steps[ids]), up[ids])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.001)
        opt.step()
    net.eval()
    with torch.no_grad():
        z = net(steps[1200:])
        print(epoch, f"{loss.item():.4f} {ce(z, up[1200:]).item():.4f} {(z.argmax(1) == up[1200:]).float().mean():.3f}")
