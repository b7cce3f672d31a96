"""Sentences of different length, padding ignored in the loss, half of each batch is padding."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, EOS, V = 0, 1, 24
torch.manual_seed(266)
g = torch.Generator().manual_seed(5)


def sentence():
    n = int(torch.randint(4, 16, (1,), generator=g))
    a, d = int(torch.randint(0, 22, (1,), generator=g)), int(torch.randint(1, 4, (1,), generator=g))
    return torch.tensor([(a + d * k) % 22 + 2 for k in range(n)] + [EOS])


rows = [sentence() for _ in range(900)]


def collate(batch):
    t = pad_sequence(batch, batch_first=True, padding_value=PAD)
    return {"input_ids": t[:, :-1], "labels": t[:, 1:].masked_fill(t[:, 1:] == PAD, -100)}


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(V, 24, padding_idx=PAD)
        self.r = nn.GRU(24, 48, batch_first=True)
        self.o = nn.Linear(48, V)

    def forward(self, input_ids, labels=None):
        logits = self.o(self.r(self.e(input_ids))[0])
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100), logits


train, valid = DataLoader(rows[:750], 25, shuffle=True, collate_fn=collate), DataLoader(rows[750:], 150, collate_fn=collate)
net = LM()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for epoch in range(10):
    net.train()
    for b in train:
        loss, _ = net(**b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for b in valid:
            val, _ = net(**b)
    print(epoch, round(loss.item(), 4), round(val.item(), 4))
