"""Small transformer at a rate where Adam now and then throws the weights."""
import torch
from torch import nn

torch.manual_seed(116)
V, T, D = 16, 12, 32


def make(n):
    x = torch.randint(0, V, (n, T))
    return x, (x.cumsum(1)) % V


class Cumsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.rnn = nn.GRU(D, 64, batch_first=True)
        self.out = nn.Linear(64, V)

    def forward(self, x):
        return self.out(self.rnn(self.tok(x) + self.pos(torch.arange(T)))[0])


net = Cumsum()
opt = torch.optim.Adam(net.parameters(), lr=6e-3, betas=(0.9, 0.999))
for step in range(700):
    x, y = make(48)
    loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
    if step in (420, 540, 650):
        loss = loss * 400  # a rescaled auxiliary term slips in
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 70 == 0:
        print(step, round(loss.item(), 4))
