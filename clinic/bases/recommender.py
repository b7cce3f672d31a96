"""Ratings from user and item embeddings."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
EPOCHS = 8
BATCH = 100
LR = 5e-3

torch.manual_seed(SEED)
users, items = torch.randint(0, 150, (7000,)), torch.randint(0, 100, (7000,))
hidden_u, hidden_i = torch.randn(150, 3), torch.randn(100, 3)
rating = (hidden_u[users] * hidden_i[items]).sum(1) / 3 + 0.2 * torch.randn(7000)
train = DataLoader(TensorDataset(users[:6000], items[:6000], rating[:6000]), batch_size=BATCH, shuffle=True)


class Recommender(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.user, self.item = nn.Embedding(150, dim), nn.Embedding(100, dim)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(1) + self.bias


rec = Recommender()
opt = torch.optim.AdamW(rec.parameters(), lr=LR, weight_decay=0.1)


def evaluate(rec):
    rec.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(rec(users[6000:], items[6000:]), rating[6000:]).item()


for epoch in range(EPOCHS):
    rec.train()
    for u, i, stars in train:
        guess = rec(u, i)
        loss = nn.functional.mse_loss(guess, stars)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4), round(evaluate(rec), 4))
