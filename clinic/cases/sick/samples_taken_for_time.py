"""Which of three tones is it? Noisy waves, read by an LSTM."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(133)
tone = torch.randint(0, 3, (1500,))
time = torch.arange(18.0)
pitch = 0.3 + 0.35 * tone.float()
waves = torch.sin(time * pitch[:, None] + 6.28 * torch.rand(1500, 1)) + 0.2 * torch.randn(1500, 18)
data = TensorDataset(waves.unsqueeze(-1), tone)
train, held = torch.utils.data.random_split(data, [1200, 300])


class Ear(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        states, _ = self.lstm(x)  # (batch, time, features)
        return self.out(states[:, -1])


ear = Ear()
opt = torch.optim.Adam(ear.parameters(), lr=5e-3)
for epoch in range(8):
    ear.train()
    for x, y in DataLoader(train, 40, shuffle=True):
        loss = nn.functional.cross_entropy(ear(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    ear.eval()
    right = total = 0.0
    with torch.no_grad():
        for x, y in DataLoader(held, 50):
            scores = ear(x)
            total += nn.functional.cross_entropy(scores, y, reduction="sum").item()
            right += (scores.argmax(1) == y).sum().item()
    print(f"epoch {epoch} train {loss.item():.3f} val {total / 300:.3f} acc {right / 300:.3f}")
