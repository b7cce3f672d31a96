"""Variable-length sequences, packed, with a bidirectional LSTM."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(243)
g = torch.Generator().manual_seed(243)


def example():
    n = int(torch.randint(3, 18, (1,), generator=g))
    s = torch.randn(n, 4, generator=g)
    return s, int(s[:, 0].sum() > 0)


rows = [example() for _ in range(1300)]


def collate(items):
    items = sorted(items, key=lambda r: -len(r[0]))
    seqs, labels = zip(*items)
    lengths = torch.tensor([len(s) for s in seqs])
    return pad_sequence(seqs, batch_first=True), lengths, torch.tensor(labels)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 20, batch_first=True, bidirectional=True)
        self.out = nn.Linear(40, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        _, (h, _) = self.lstm(packed)
        return self.out(torch.cat([h[0], h[1]], 1))


train = DataLoader(rows[:1000], batch_size=40, shuffle=True, collate_fn=collate)
valid = DataLoader(rows[1000:], batch_size=300, collate_fn=collate)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
for epoch in range(8):
    net.train()
    for x, n, t in train:
        loss = nn.functional.cross_entropy(net(x, n), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for x, n, t in valid:
            out = net(x, n)
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, t).item():.4f} {(out.argmax(1) == t).float().mean():.3f}")
