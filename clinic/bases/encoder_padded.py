"""Transformer encoder over padded token sequences."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SEED = 0
EPOCHS = 6
BATCH = 32
LR = 2e-3
PAD = 0

torch.manual_seed(SEED)
gen = torch.Generator().manual_seed(SEED + 1)


def example():
    length = int(torch.randint(5, 13, (1,), generator=gen))
    tokens = torch.randint(1, 13, (length,), generator=gen)
    return tokens, int(torch.bincount((tokens - 1) // 4, minlength=3).argmax())


rows = [example() for _ in range(1500)]


def collate(batch):
    seqs, labels = zip(*batch)
    tokens = pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return tokens, tokens == PAD, torch.tensor(labels)


class Encoder(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.emb = nn.Embedding(13, d, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(d, 2, 48, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 3)

    def forward(self, tokens, pad):
        h = self.enc(self.emb(tokens), src_key_padding_mask=pad)
        h = h.masked_fill(pad.unsqueeze(-1), 0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.cls(h)


train_dl = DataLoader(rows[:1200], batch_size=BATCH, shuffle=True, collate_fn=collate)
val_dl = DataLoader(rows[1200:], batch_size=300, collate_fn=collate)
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)


def evaluate(model):
    model.eval()
    with torch.no_grad():
        for tokens, pad, labels in val_dl:
            logits = model(tokens, pad)
            val, acc = nn.functional.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).float().mean().item()
    return val, acc


for epoch in range(EPOCHS):
    model.train()
    for tokens, pad, labels in train_dl:
        optimizer.zero_grad()
        logits = model(tokens, pad)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} train {loss.item():.3f} val/acc", evaluate(model))
