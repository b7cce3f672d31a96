"""An LSTM over sequences with packed lengths and a masked loss."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(11)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8, padding_idx=0)
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return self.out(h)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
for step in range(15):
    lengths = torch.randint(3, 10, (8,))
    x = torch.randint(1, 20, (8, 9))
    x[torch.arange(9)[None] >= lengths[:, None]] = 0
    y = torch.where(x > 0, x % 5, torch.full_like(x, -100))
    loss = nn.functional.cross_entropy(model(x, lengths).flatten(0, 1), y.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()))
