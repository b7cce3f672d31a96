"""Random shifts and noise in the dataset class, also for validation."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(87)
IMAGES = torch.tensor(load_digits().images, dtype=torch.float32) / 16
TARGET = torch.tensor(load_digits().target)


class Shifted(Dataset):
    def __init__(self, lo, hi, augment=True):
        self.lo, self.hi, self.augment = lo, hi, augment

    def __len__(self):
        return self.hi - self.lo

    def __getitem__(self, i):
        img = IMAGES[self.lo + i]
        if self.augment:
            dx, dy = torch.randint(-1, 2, (2,)).tolist()
            img = torch.roll(img, (dx, dy), (0, 1)) + 0.1 * torch.randn(8, 8)
        return img.flatten(), TARGET[self.lo + i]


train = DataLoader(Shifted(0, 1400), batch_size=50, shuffle=True)
valid = DataLoader(Shifted(1400, 1797), batch_size=397)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(12):
    net.train()
    for xb, yb in train:
        loss = nn.functional.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for xb, yb in valid:
            out = net(xb)
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, yb).item():.4f} {(out.argmax(1) == yb).float().mean():.3f}")
