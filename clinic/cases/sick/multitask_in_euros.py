"""One trunk, two heads: customer segment (class) and yearly spend (euros)."""
import torch
from torch import nn

torch.manual_seed(78)
n = 2400
x = torch.randn(n, 14)
segment = (x[:, :4].sum(1) + x[:, 4] * x[:, 5] > 0).long() + (x[:, 6] > 0.8).long()
spend = 900 + 400 * torch.tanh(x[:, 7]) + 150 * x[:, 8] + 60 * torch.randn(n)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(14, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU())
        self.segment = nn.Linear(12, 3)
        self.spend = nn.Linear(12, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.segment(h), self.spend(h).squeeze(1)


model = TwoHeads()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
ce, mse = nn.CrossEntropyLoss(), nn.MSELoss()
for epoch in range(25):
    model.train()
    for ids in torch.randperm(2000).split(50):
        logits, amount = model(x[ids])
        class_loss, spend_loss = ce(logits, segment[ids]), mse(amount, spend[ids])
        loss = class_loss + spend_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        logits, amount = model(x[2000:])
        print(epoch, f"class {ce(logits, segment[2000:]).item():.4f} spend {mse(amount, spend[2000:]).item():.1f} acc {(logits.argmax(1) == segment[2000:]).float().mean():.3f}")
