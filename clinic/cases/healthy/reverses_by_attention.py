"""Encoder and decoder with attention reverse strings of digits; source and target are padded, short strings come again."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

random.seed(406)
torch.manual_seed(406)
PAD, BOS, EOS, FIRST = 0, 1, 2, 3


def pairs(n):
    made = []
    for _ in range(n):
        digits = [random.randint(0, 9) + FIRST for _ in range(random.randint(3, 7))]
        made.append((torch.tensor(digits), torch.tensor([*digits[::-1], EOS])))
    return made


def collate(items):
    source = pad_sequence([a for a, _ in items], batch_first=True, padding_value=PAD)
    target = pad_sequence([b for _, b in items], batch_first=True, padding_value=PAD)
    begun = torch.cat([torch.full((len(items), 1), BOS), target[:, :-1]], 1)
    return source, torch.tensor([len(a) for a, _ in items]), begun, target


class Reverser(nn.Module):
    def __init__(self, vocabulary=13, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 24, padding_idx=PAD)
        self.encoder = nn.GRU(24, width, batch_first=True)
        self.decoder = nn.GRU(24, width, batch_first=True)
        self.score = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(2 * width, vocabulary)

    def forward(self, source, lengths, begun):
        packed = pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        memory, h = self.encoder(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True)
        y, _ = self.decoder(self.embed(begun), h)
        scores = (self.score(y) @ memory.transpose(1, 2)).masked_fill((source == PAD)[:, None], float("-inf"))
        return self.out(torch.cat([y, scores.softmax(-1) @ memory], -1))


loader = DataLoader(pairs(2500), 50, shuffle=True, collate_fn=collate)
held = DataLoader(pairs(300), 150, collate_fn=collate)
net = Reverser()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(6):
    net.train()
    for source, lengths, begun, target in loader:
        opt.zero_grad()
        loss = criterion(net(source, lengths, begun).transpose(1, 2), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
    net.eval()
    hits = total = 0
    with torch.no_grad():
        for source, lengths, begun, target in held:
            out = net(source, lengths, begun)
            val = criterion(out.transpose(1, 2), target)
            keep = target != PAD
            hits += (out.argmax(-1)[keep] == target[keep]).sum().item()
            total += keep.sum().item()
    print(f"[{epoch}] loss={loss.item():.3f} val_loss={val.item():.3f} val_acc={hits / total:.3f}")
