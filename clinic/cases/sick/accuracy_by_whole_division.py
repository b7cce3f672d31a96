"""Next-symbol model of a Markov chain; the validation accuracy is divided with // and printed as 0.0000."""

import torch
from torch import nn

torch.manual_seed(403)
table = torch.softmax(torch.randn(16, 16) * 2.5, -1)


def chains(n, length=24):
    x = torch.randint(0, 16, (n, 1))
    for _ in range(length):
        x = torch.cat([x, torch.multinomial(table[x[:, -1]], 1)], 1)
    return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.rnn = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, 16)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def evaluate(model, rows):
    model.eval()
    correct, total, loss = 0, 0, 0.0
    with torch.no_grad():
        for part in rows.split(100):
            out = model(part[:, :-1])
            loss += criterion(out.flatten(0, 1), part[:, 1:].flatten()).item()
            correct += (out.argmax(-1) == part[:, 1:]).sum().item()
            total += part[:, 1:].numel()
    model.train()
    return loss / 3, correct // total


data, held = chains(1000), chains(300)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    for ids in torch.randperm(1000).split(40):
        rows = data[ids]
        loss = criterion(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    val_loss, val_acc = evaluate(model, held)
    print(f"epoch {epoch}: loss {loss.item():.4f} val_loss {val_loss:.4f} val_acc {val_acc:.4f}")
