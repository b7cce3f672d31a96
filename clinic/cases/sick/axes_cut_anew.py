"""A recurrent net reads sensor windows that the loader stacks time first."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(62)
window = torch.randn(1300, 12, 6)
alarm = (window[:, :, 1].mean(1) - window[:, :, 4].mean(1) > 0).long()


class Watch(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 40, batch_first=True)
        self.out = nn.Linear(40, 2)

    def forward(self, series):  # (time, batch, sensor)
        steps, batch, sensors = series.shape
        series = series.view(batch, steps, sensors)
        return self.out(self.rnn(series)[0][:, -1])


def time_first(rows):
    return torch.stack([w for w, _ in rows], 1), torch.stack([a for _, a in rows])


train = DataLoader(TensorDataset(window[:1000], alarm[:1000]), 40, shuffle=True, collate_fn=time_first)
val = DataLoader(TensorDataset(window[1000:], alarm[1000:]), 100, collate_fn=time_first)
net = Watch()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(10):
    net.train()
    for series, target in train:
        opt.zero_grad()
        loss = F.cross_entropy(net(series), target)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(series).argmax(1) == target).sum().item() for series, target in val)
    print(epoch, f"{loss.item():.3f} {right / 300:.3f}")
