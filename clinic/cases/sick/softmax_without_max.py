"""A hand-rolled attention pooler for sequences of sensor readings."""
import torch
from torch import nn

torch.manual_seed(33)
N, T, D = 1200, 15, 6
signals = torch.randn(N, T, D).cumsum(1) * 0.5
label = (signals[:, :, 0].amax(1) > signals[:, :, 1].amax(1)).float()


class Pooler(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.key = nn.Linear(D, d)
        self.score = nn.Linear(d, 1)
        self.value = nn.Linear(D, d)
        self.out = nn.Linear(d, 1)

    def forward(self, s):
        e = torch.exp(self.score(torch.relu(self.key(s))) / 0.05)
        weights = e / e.sum(dim=1, keepdim=True)
        return self.out((weights * self.value(s)).sum(1)).squeeze(1)


model = Pooler()
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
bce = nn.BCEWithLogitsLoss()
for epoch in range(40):
    model.train()
    for ids in torch.randperm(1000).split(50):
        opt.zero_grad()
        loss = bce(model(signals[ids]), label[ids])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(signals[1000:])
        if epoch % 4 == 0:
            print(f"{epoch} {loss.item():.4f} {bce(out, label[1000:]).item():.4f} acc {((out > 0).float() == label[1000:]).float().mean():.3f}")
