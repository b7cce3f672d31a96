"""Tags for every token of padded sequences: is a number larger than its neighbours, smaller, or between them?"""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

SEED = 0
EPOCHS = 6
BATCH = 40
LR = 3e-3
PAD, NO_TAG = 0, -1

torch.manual_seed(SEED)


class Waves(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.rows = [torch.randint(1, 60, (int(n),), generator=draw) for n in torch.randint(5, 15, (count,), generator=draw)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        left, right = torch.cat([row[:1], row[:-1]]), torch.cat([row[1:], row[-1:]])
        return row, (row >= torch.maximum(left, right)).long() + 2 * (row < torch.minimum(left, right)).long()


def collate(batch):
    tokens, tags = zip(*batch)
    return pad_sequence(tokens, True, PAD), pad_sequence(tags, True, NO_TAG)


class Tagger(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed, self.place = nn.Embedding(60, dim, padding_idx=PAD), nn.Embedding(16, dim)
        self.near = nn.Conv1d(dim, dim, 3, padding=1)
        layer = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True)
        self.mix = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.tag = nn.Linear(dim, 3)

    def forward(self, tokens):
        h = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        h = torch.relu(self.near(h.transpose(1, 2))).transpose(1, 2)
        return self.tag(self.mix(h, src_key_padding_mask=tokens == PAD))


class Fit:
    def __init__(self, model):
        self.model, self.best = model, float("inf")
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
        self.loss = nn.CrossEntropyLoss(ignore_index=NO_TAG)
        self.train_set = DataLoader(Waves(1600, SEED + 1), BATCH, shuffle=True, collate_fn=collate)
        self.val_set = DataLoader(Waves(300, SEED + 2), 100, collate_fn=collate)

    def evaluate(self, model):
        model.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for tokens, tags in self.val_set:
                known = int((tags != NO_TAG).sum())
                total += self.loss(model(tokens).flatten(0, 1), tags.flatten()).item() * known
                count += known
        return total / count

    def run(self):
        for epoch in range(EPOCHS):
            self.model.train()
            for tokens, tags in self.train_set:
                self.optimizer.zero_grad()
                scores = self.model(tokens)
                loss = self.loss(scores.flatten(0, 1), tags.flatten())
                loss.backward()
                self.optimizer.step()
            print(epoch, round(loss.item(), 4), round(self.evaluate(self.model), 4))


Fit(Tagger()).run()
