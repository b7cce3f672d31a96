"""Set classification: does the set contain at least three points inside the unit circle?"""
import math

import torch
import torch.nn as nn

torch.manual_seed(8)
N, K = 1800, 10
sets = torch.randn(N, K, 2) * 1.1
inside = (sets.norm(dim=-1) < 1).sum(1)
labels = (inside >= 5).long()


class SetNet(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(2, d), nn.ReLU(), nn.Linear(d, d))
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.head = nn.Linear(d, 2)

    def forward(self, s):
        h = self.embed(s)
        scores = self.q(h) @ self.k(h).transpose(1, 2) / math.sqrt(h.shape[-1])
        mix = torch.softmax(scores, dim=0) @ self.v(h)
        return self.head((h + mix).mean(1))


model = SetNet()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
ce = nn.CrossEntropyLoss()
for epoch in range(15):
    model.train()
    for ids in torch.randperm(1500).split(60):
        loss = ce(model(sets[ids]), labels[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(sets[1500:])
    print(epoch, f"{loss.item():.3f} {ce(out, labels[1500:]).item():.3f} {(out.argmax(1) == labels[1500:]).float().mean():.3f}")
