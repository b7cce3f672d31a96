"""Spell numbers as words with a source and a target sequence; the loss runs over the padded target."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader

random.seed(401)
torch.manual_seed(401)
WORDS = "zero one two three four five six seven eight nine".split()
ALPHABET = ["_", "<", ">", *sorted(set("".join(WORDS) + " "))]
AT = {c: i for i, c in enumerate(ALPHABET)}
LENGTH = 40


def row(number):
    digits = [int(c) + 1 for c in str(number)]
    text = ["<", *" ".join(WORDS[int(c)] for c in str(number)), ">"]
    target = [AT[c] for c in text]
    return torch.tensor(digits + [0] * (5 - len(digits))), torch.tensor(target + [0] * (LENGTH - len(target)))


def some(n):
    return [row(random.choice([random.randint(0, 9), random.randint(10, 99), random.randint(100, 999)])) for _ in range(n)]


class Speller(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.digit = nn.Embedding(11, 16)
        self.start = nn.Linear(80, width)
        self.letter = nn.Embedding(len(ALPHABET), 24)
        self.rnn = nn.GRU(24, width, batch_first=True)
        self.out = nn.Linear(width, len(ALPHABET))

    def forward(self, source, target):
        h = torch.tanh(self.start(self.digit(source).flatten(1)))
        return self.out(self.rnn(self.letter(target), h[None])[0])


net = Speller()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
loader, held = DataLoader(some(1500), 50, shuffle=True), DataLoader(some(200), 100)
for epoch in range(5):
    net.train()
    for x, y in loader:
        loss = criterion(net(x, y[:, :-1]).reshape(-1, len(ALPHABET)), y[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    val = 0.0
    with torch.no_grad():
        for x, y in held:
            val += criterion(net(x, y[:, :-1]).reshape(-1, len(ALPHABET)), y[:, 1:].reshape(-1)).item() / len(held)
    print("epoch", epoch, "loss", round(loss.item(), 4), "val", round(val, 4))
