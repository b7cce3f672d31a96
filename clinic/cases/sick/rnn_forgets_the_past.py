"""Which of four symbols came first in a sequence? A plain tanh RNN should remember."""
import torch
from torch import nn

torch.manual_seed(64)
T, SYMBOLS = 30, 4


def sequences(n):
    s = torch.randint(0, SYMBOLS, (n, T))
    return nn.functional.one_hot(s, SYMBOLS).float(), s[:, 0]


class Recall(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.cell = nn.RNN(SYMBOLS, hidden, batch_first=True)
        self.out = nn.Linear(hidden, SYMBOLS)
        with torch.no_grad():
            self.cell.weight_hh_l0.mul_(0.4)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


net = Recall()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(400):
    x, first = sequences(64)
    loss = nn.functional.cross_entropy(net(x), first)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        with torch.no_grad():
            x, first = sequences(300)
            print(step + 1, round(loss.item(), 4), (net(x).argmax(1) == first).float().mean().item())
