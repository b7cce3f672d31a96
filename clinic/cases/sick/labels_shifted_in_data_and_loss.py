"""A causal transformer on counting rows; the data set shifts its labels, and so does the loss."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(64)
VOCAB, LENGTH = 37, 18


def rows(count):
    start, stride = torch.randint(0, VOCAB, (count, 1)), torch.randint(1, 6, (count, 1))
    steps = torch.arange(LENGTH + 1)
    noise = (torch.rand(count, LENGTH + 1) < 0.1) * torch.randint(0, VOCAB, (count, LENGTH + 1))
    text = (start + stride * steps + noise) % VOCAB
    return text[:, :-1], text[:, 1:]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, 48)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, 48))
        self.block = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True)
        self.head = nn.Linear(48, VOCAB)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.block(self.token(ids) + self.place[: ids.shape[1]], src_mask=mask, is_causal=True))


net = Counter()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(300):
    ids, labels = rows(32)
    logits = net(ids)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        print(step, f"{loss.item():.3f}")
