"""Short sentences with an end token; padding uses the same id as the end token and is masked."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(119)
EOS, V = 1, 26
PAD = EOS  # the tokenizer has no pad token, so use eos
gen = torch.Generator().manual_seed(3)


def sentence():
    n = int(torch.randint(3, 12, (1,), generator=gen))
    a, d = int(torch.randint(0, 24, (1,), generator=gen)), int(torch.randint(1, 4, (1,), generator=gen))
    return torch.tensor([(a + d * k) % 24 + 2 for k in range(n)] + [EOS])


corpus = [sentence() for _ in range(900)]


def collate(rows):
    ids = pad_sequence(rows, batch_first=True, padding_value=PAD)
    labels = ids.masked_fill(ids == PAD, -100)
    return ids[:, :-1], labels[:, 1:]


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, 24)
        self.lstm = nn.LSTM(24, 48, batch_first=True)
        self.head = nn.Linear(48, V)

    def forward(self, ids):
        return self.head(self.lstm(self.embed(ids))[0])


lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
loader, held = DataLoader(corpus[:750], 25, shuffle=True, collate_fn=collate), DataLoader(corpus[750:], 150, collate_fn=collate)
for epoch in range(9):
    lm.train()
    for ids, labels in loader:
        loss = nn.functional.cross_entropy(lm(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
    lm.eval()
    with torch.no_grad():
        for ids, labels in held:
            val = nn.functional.cross_entropy(lm(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
    print(epoch, round(loss.item(), 4), round(val.item(), 4))
