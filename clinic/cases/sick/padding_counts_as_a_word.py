"""Word-level GRU on short sentences padded with zeros; the loss counts the padding."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(104)
PAD, V = 0, 25
g = torch.Generator().manual_seed(104)


def sentence():
    n = int(torch.randint(3, 14, (1,), generator=g))
    start = int(torch.randint(1, V, (1,), generator=g))
    step = int(torch.randint(1, 4, (1,), generator=g))
    return torch.tensor([(start + step * k - 1) % (V - 1) + 1 for k in range(n)])


sentences = [sentence() for _ in range(900)]


def collate(rows):
    batch = pad_sequence(rows, batch_first=True, padding_value=PAD)
    return batch[:, :-1], batch[:, 1:]


train = DataLoader(sentences[:750], batch_size=25, shuffle=True, collate_fn=collate)
valid = DataLoader(sentences[750:], batch_size=150, collate_fn=collate)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 24, padding_idx=PAD)
        self.rnn = nn.GRU(24, 48, batch_first=True)
        self.out = nn.Linear(48, V)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


net = Words()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(12):
    net.train()
    for x, y in train:
        opt.zero_grad()
        loss = criterion(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for x, y in valid:
            print(epoch, round(loss.item(), 4), round(criterion(net(x).flatten(0, 1), y.flatten()).item(), 4))
