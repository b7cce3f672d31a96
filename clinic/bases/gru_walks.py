"""GRU over random walks: does the walk end above its start?"""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
EPOCHS = 8
BATCH = 40
LR = 3e-3

torch.manual_seed(SEED)
steps = torch.randn(1500, 14, 3)
up = (steps[:, :, 0].sum(1) + 0.4 * steps[:, -3:, 1].sum(1) > 0).long()
a_x, a_y, b_x, b_y = steps[:1200], up[:1200], steps[1200:], up[1200:]
feed = DataLoader(TensorDataset(a_x, a_y), batch_size=BATCH, shuffle=True)


class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, s):
        _, h = self.gru(s)
        return self.head(h[-1])


walker = Walker()
opt = torch.optim.Adam(walker.parameters(), lr=LR)


def evaluate(walker):
    walker.eval()
    with torch.no_grad():
        guess = walker(b_x)
    return nn.functional.cross_entropy(guess, b_y).item(), (guess.argmax(1) == b_y).float().mean().item()


for epoch in range(EPOCHS):
    walker.train()
    for seq, label in feed:
        guess = walker(seq)
        loss = nn.functional.cross_entropy(guess, label)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(walker.parameters(), 1.0)
        opt.step()
    print(epoch, round(loss.item(), 4), evaluate(walker))
