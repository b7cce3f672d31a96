"""Transformer encoder over padded sequences: is the sum of the tokens even?"""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Sums(Dataset):
    """Sequences of small numbers; the class is which of three token groups is most frequent."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            length = int(torch.randint(4, 13, (1,), generator=g))
            seq = torch.randint(1, 10, (length,), generator=g)
            groups = torch.bincount((seq - 1) // 3, minlength=3)
            self.rows.append((seq, int(groups.argmax())))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    seqs, labels = zip(*rows)
    tokens = pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return tokens, tokens != PAD, torch.tensor(labels)


class Encoder(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(10, d, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(d, 2, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 3)

    def forward(self, tokens, mask):
        x = torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
        mask = torch.cat([torch.zeros_like(mask[:, :1]), mask], 1)
        h = self.enc(self.emb(x), src_key_padding_mask=mask)
        return self.cls(h[:, 0])


torch.manual_seed(19)
train = DataLoader(Sums(1600, 0), batch_size=40, shuffle=True, collate_fn=collate)
test = DataLoader(Sums(400, 1), batch_size=200, collate_fn=collate)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    model.train()
    for tokens, mask, label in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens, mask), label)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(t, m).argmax(1) == lab).sum().item() for t, m, lab in test)
        val = sum(nn.functional.cross_entropy(model(t, m), lab).item() for t, m, lab in test) / len(test)
    print(f"epoch {epoch} loss {loss.item():.3f} val {val:.3f} acc {hits / 400:.3f}")
